"""Shapes of draft trees: how many drafts follow each node, depth by depth, and what fits a budget."""

from collections.abc import Iterator

from spec_oracle.efficiency.trees import FanOuts
from spec_oracle.validation import require_whole


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
        shape for shape in every if not any(is_within(shape, other) for other in every if other != shape)
    )


def single_path(budget: int, depth: int) -> FanOuts:
    """Return one path of ``budget`` tokens, of ``depth`` where that is less."""
    return FanOuts((1,) * min(budget, depth))


def is_within(one: FanOuts, other: FanOuts) -> bool:
    """Say whether ``other`` has every node of ``one``."""
    pairs = zip(one.fan_outs, other.fan_outs, strict=False)
    return one.levels <= other.levels and all(mine <= theirs for mine, theirs in pairs)


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
