"""Shapes of draft trees: how many drafts follow each node, depth by depth, and what fits a budget."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from spec_oracle.errors import InvalidInputError
from spec_oracle.validation import require_whole


@dataclass(frozen=True)
class FanOuts:
    """A tree in which every node of depth d - 1 is followed by ``fan_outs[d - 1]`` drafts, d = 1..L.

    Of equal siblings the first has the children of all of them, so K independent paths of L tokens are the
    shape (K, 1, .., 1), and branches that start after d tokens have d leading ones (arXiv 2602.16994).
    """

    fan_outs: tuple[int, ...]

    @classmethod
    def named(cls, name: str) -> "FanOuts":
        """Return the shape of a name as `str` gives it; raises `InvalidInputError` for another text.

        >>> FanOuts.named("delay 1, K = 3, L = 2").fan_outs, FanOuts.named("fan-outs 2, 2").fan_outs
        ((1, 3, 1), (2, 2))
        """
        paths = re.fullmatch(r"(?:delay (\d+), )?K = (\d+), L = (\d+)", name)
        fan_outs = re.fullmatch(r"fan-outs (\d+(?:, \d+)*)", name)
        sizes = [int(one) for one in re.findall(r"\d+", name)]
        if min(sizes, default=0) < 1 or not (paths or fan_outs):
            raise InvalidInputError(
                f"tree: expected a shape such as 'K = 4, L = 2', 'delay 1, K = 3, L = 1' or 'fan-outs 2, 2', "
                f"got {name!r}"
            )
        if fan_outs:
            return cls(tuple(sizes))
        *delay, count, length = sizes
        return cls((*[1] * sum(delay), count, *[1] * (length - 1)))

    @property
    def tokens(self) -> int:
        """Drafted tokens."""
        return sum(accumulate(self.fan_outs, mul))

    @property
    def levels(self) -> int:
        """Tokens of the longest path, which is the number of calls of the draft."""
        return len(self.fan_outs)

    @property
    def delay(self) -> int:
        """Tokens before the tree branches; all of them for a single path."""
        return next((depth for depth, fan_out in enumerate(self.fan_outs) if fan_out > 1), self.levels)

    @property
    def num_paths(self) -> int | None:
        """K, where the tree branches once, 1 for a single path; None where it branches again."""
        branched = [fan_out for fan_out in self.fan_outs if fan_out > 1]
        return None if len(branched) > 1 else (*branched, 1)[0]

    def __str__(self) -> str:
        """Return the shape in the field's words, for a table."""
        if self.num_paths is None:
            return f"fan-outs {', '.join(map(str, self.fan_outs))}"
        stem = f"delay {self.delay}, " if 0 < self.delay < self.levels else ""
        return f"{stem}K = {self.num_paths}, L = {self.levels - self.delay * bool(stem)}"

    def within(self, other: "FanOuts") -> bool:
        """Say whether ``other`` has every node of this shape."""
        pairs = zip(self.fan_outs, other.fan_outs, strict=False)
        return self.levels <= other.levels and all(mine <= theirs for mine, theirs in pairs)


def shapes_for(budget: int, depth: int, widest: int | None = None) -> tuple[FanOuts, ...]:
    """Return the largest shapes of at most ``budget`` drafted tokens, ``depth`` levels, ``widest`` fan-outs.

    After a stem of any length the fan-outs never grow. A shape whose nodes another one has too is left out.
    Raises `InvalidInputError` for sizes below 1.

    >>> [str(shape) for shape in shapes_for(4, 3)]
    ['K = 4, L = 1', 'K = 2, L = 2', 'delay 1, K = 3, L = 1', 'delay 2, K = 2, L = 1']
    """
    require_whole(budget, "budget")
    require_whole(depth, "depth")
    every = sorted(_fitting(budget, depth, widest or budget), key=lambda shape: shape.fan_outs, reverse=True)
    return tuple(
        shape for shape in every if not any(shape.within(other) for other in every if other != shape)
    )


def single_path(budget: int, depth: int) -> FanOuts:
    """Return one path of ``budget`` tokens, of ``depth`` where that is less."""
    return FanOuts((1,) * min(budget, depth))


def _fitting(budget: int, depth: int, widest: int) -> Iterator[FanOuts]:
    """Yield every shape that fits."""

    def longer(fan_outs: tuple[int, ...], width: int, left: int) -> Iterator[FanOuts]:
        if fan_outs:
            yield FanOuts(fan_outs)
        if len(fan_outs) < depth:
            branched = any(fan_out > 1 for fan_out in fan_outs)
            most = min(left // width, fan_outs[-1] if branched else widest)
            for fan_out in range(1, most + 1):
                yield from longer((*fan_outs, fan_out), width * fan_out, left - width * fan_out)

    yield from longer((), 1, budget)


def too_deep(budget: int, depth: int) -> str:
    """Name the paths of the whole budget that are longer than ``depth``; "" where there are none."""
    counts = [paths for paths in range(1, budget + 1) if budget % paths == 0 and budget // paths > depth]
    return ", ".join(f"K = {paths}, L = {budget // paths}" for paths in counts)
