"""The covering design: points that have every value of every axis, then points that have every pair.

Axes are named, and a point has one value of each. A defect needs one value (V above 65,536), or two (the
bonus after an odd draft length in float32), seldom three. All pairs fit into about a hundred points, where
the product of the axes has millions.

Points are chosen greedily. `CANDIDATES` random points are made, each about a value, or pair of values, that
no point has yet; the one with the most new ones for its cost comes next. So cheap points come first: a
quarter of the cost of all points pays for about nine tenths of the pairs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.statistics.streams import stream

Value: TypeAlias = Any
Axes: TypeAlias = Mapping[str, Sequence[Value]]
"""The values of each axis; the first one is the usual one."""

Point: TypeAlias = Mapping[str, Value]
"""One value of each axis."""

Part: TypeAlias = tuple[tuple[str, Value], ...]
"""A value with the name of its axis, or a pair of them."""

Repair: TypeAlias = Callable[[dict[str, Value], Collection[str]], Point | None]
"""Make a point possible by other values of axes that are not named; return None where it cannot.

A pair of values is possible if it is with the usual values, the first ones, of all other axes.
"""

CANDIDATES: Final = 16


class Covering(NamedTuple):
    """The ``values`` are points that have every value, ``pairs`` points that have the other pairs."""

    values: list[Point]
    pairs: list[Point]


def covering(
    axes: Axes,
    *,
    cost: Callable[[Point], float] = lambda _: 1.0,
    repair: Repair = lambda point, _: point,
    known: Iterable[Point] = (),
) -> Covering:
    """Choose the points of a design; equal arguments give equal points.

    Values and pairs of ``known`` points need not come again, and none comes that ``repair`` finds impossible.
    The points with every value are sorted by ``cost``.

    >>> covering({"size": (1, 2), "type": ("int", "float")}).values
    [{'size': 1, 'type': 'float'}, {'size': 2, 'type': 'int'}]
    """
    rng, known = stream(0, "covering"), [*known]
    values = sorted(_covered(axes, 1, known, cost, repair, rng), key=cost)
    return Covering(values, [*_covered(axes, 2, [*known, *values], cost, repair, rng)])


def parts_of(point: Point, size: int) -> Iterator[Part]:
    """Yield the values of a point (``size`` 1), or its pairs of values (2)."""
    return combinations(point.items(), size)


def _covered(  # noqa: PLR0917
    axes: Axes,
    size: int,
    known: Iterable[Point],
    cost: Callable[[Point], float],
    repair: Repair,
    rng: np.random.Generator,
) -> Iterator[Point]:
    """Yield points until they have all possible parts of that size."""
    usual = {axis: values[0] for axis, values in axes.items()}
    left = dict.fromkeys(
        part
        for names in combinations(axes, size)
        for part in product(*([(name, value) for value in axes[name]] for name in names))
        if repair(usual | dict(part), names) is not None
    )

    def made(part: Part) -> Point:
        """Return a possible point with the part; its other values are random, new ones where there are."""
        point = dict(part)
        for axis in (axis for axis in axes if axis not in point):
            new = [value for value in axes[axis] if ((axis, value),) in left]
            values = new or axes[axis]
            point[axis] = values[int(rng.integers(len(values)))]
        names = [axis for axis, _ in part]
        repaired = repair({axis: point[axis] for axis in axes}, names) or repair(usual | dict(part), names)
        assert repaired is not None
        return repaired

    def new_parts(point: Point) -> int:
        return sum(part in left for part in parts_of(point, size))

    for point in known:
        _take(left, {axis: point[axis] for axis in axes}, size)
    while left:
        parts = [*left]
        points = [made(parts[number]) for number in rng.integers(len(parts), size=CANDIDATES)]
        best = max(points, key=lambda point: new_parts(point) / cost(point))
        _take(left, best, size)
        yield best


def _take(left: dict[Part, None], point: Point, size: int) -> None:
    """Remove the parts of a point."""
    for part in parts_of(point, size):
        left.pop(part, None)
