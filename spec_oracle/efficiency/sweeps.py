"""Block efficiency against the number of paths and the draft length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spec_oracle.efficiency.figures import Efficiency, efficiencies
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance


@dataclass(frozen=True)
class Sweep:
    """The figures of one verifier while K or L grows: ``at[i]`` paths or tokens give ``points[i]``."""

    verifier: str
    at: tuple[int, ...]
    points: tuple[Efficiency, ...]

    @property
    def block_efficiency(self) -> list[float]:
        """Tokens per call."""
        return [float(point.block_efficiency) for point in self.points]

    @property
    def optimum(self) -> list[float]:
        """The most tokens per call; NaN where the instance is too large to know."""
        return [float("nan") if point.optimum is None else float(point.optimum) for point in self.points]


@dataclass(frozen=True)
class Sweeps:
    """The figures of the same verifiers for K = 1 .. ``num_paths`` and for L = 1 .. ``draft_length``.

    Each sweep keeps the other size as in the instance; it is empty where there is but one value.
    """

    num_paths: int
    draft_length: int
    by_paths: tuple[Sweep, ...]
    by_length: tuple[Sweep, ...]


def sweeps(instance: Instance, names: Sequence[str]) -> Sweeps:
    """Sweep the named verifiers; raises `InvalidInputError` for an instance with one path of one token."""
    if instance.num_paths == instance.draft_length == 1:
        raise InvalidInputError("instance: one path of one token leaves nothing to sweep")

    def shortened(length: int) -> Instance:
        return Instance(instance.target, instance.draft, length, instance.num_paths)

    return Sweeps(
        instance.num_paths,
        instance.draft_length,
        _sweep(instance.with_paths, instance.num_paths, names),
        _sweep(shortened, instance.draft_length, names),
    )


def _sweep(instance_at: Callable[[int], Instance], largest: int, names: Sequence[str]) -> tuple[Sweep, ...]:
    if largest == 1:
        return ()
    at = tuple(range(1, largest + 1))
    columns = [efficiencies("", instance_at(value), names) for value in at]
    points = zip(*columns, strict=True)
    return tuple(Sweep(name, at, mine) for name, mine in zip(names, points, strict=True))
