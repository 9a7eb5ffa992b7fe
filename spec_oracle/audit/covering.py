"""The covering design: points that have every value of every axis, then points that have every pair.

Axes are named, and a point has one value of each. A defect needs one value (V above 65,536), or two (the
bonus after an odd draft length in float32), seldom three. All pairs fit into about a hundred points, where
the product of the axes has millions.

Points are chosen greedily. `CANDIDATES` random points are made, each about a value, or pair of values, that
no point has yet; the one with the most new ones for its cost comes next. So cheap points come first: a
quarter of the cost of all points pays for about nine tenths of the pairs.

The `design` of shapes is such a one; so is that of the sampling fields of servers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.audit.shapes.axes import AXES, PLACES, AxisValue
from spec_oracle.audit.shapes.trees import OPTIONS, Shape
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
            values = axes[axis]
            if size == 1:  # no pair is a value
                values = [value for value in values if ((axis, value),) in left] or values
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


# The design of shapes: those that have every value come first; a value not tried leaves an audit open.

_OF_OTHERS: Final[Mapping[str, Sequence[str]]] = {
    "place": PLACES[1:],
    "draft_lengths": ("ragged",),
    "is_greedy": ("others", "every second other"),
    "generators": ("others", "all"),
}


def needs_others(axis: str, value: AxisValue) -> bool:
    """Whether a value means something only where a batch has more than one request."""
    return value in _OF_OTHERS.get(axis, ())


MOST_NUMBERS: Final = 6_000_000
"""Most probabilities that the arguments of one call may have."""

_MOST_OF_A_BATCH: Final = 500_000
"""The same for several requests."""

_MOST_POSITIONS: Final = 300
"""Most positions of all requests, but for batches of the shortest drafts."""

_A_SHAPE: Final = 60
"""What any shape costs, in positions."""

_RUNS: Final = {"special": 0.8, "zero": 0.6, "one-hot": 0.6, "equal": 0.3}
"""How many runs rows of these kinds take, as a share of those of other kinds."""

_LARGE: Final = 257
"""Tokens from which on rows have few possible tokens, unless a pair of values needs other rows."""

_OF_FEW_TOKENS: Final = ("special", "zero")
"""Kinds of rows with few possible tokens."""

_SMALL: Final = 5
"""Tokens of a small vocabulary whose rows differ by their kind."""

_HIDING: Final = {"draft_lengths": "empty", "is_greedy": "itself"}
"""Optional arguments under which other requests have little influence: they are given alone."""

_SIZES: Final = ("batch", "draft_length", "num_paths", "vocab_size")
"""Axes of sizes, in the order in which they are reduced where arrays are too large."""


@dataclass(frozen=True)
class Design:
    """The shapes in the order in which they are tried; ``axes`` are the values, by axis.

    The first ``of_values`` shapes have every value of every axis.
    """

    shapes: tuple[Shape, ...]
    of_values: int
    axes: Axes


@lru_cache(maxsize=32)
def design(**fewer: tuple[AxisValue, ...]) -> Design:
    """Return shapes that have every value of every axis, then shapes that have all pairs of values.

    ``fewer`` are axes by name, with the values that a subject takes, or that are of interest. Pairs with
    which arrays would be too large are left out.
    """
    axes = {**AXES, **fewer}
    if max(axes["batch"]) == 1:
        axes = {
            name: tuple(v for v in values if not needs_others(name, v)) or values[:1]
            for name, values in axes.items()
        }
    found = covering(axes, cost=lambda point: cost(Shape(**point)), repair=partial(_repaired, axes))
    first = [Shape(**point) for point in found.values]
    return Design((*first, *(Shape(**point, is_brief=True) for point in found.pairs)), len(first), axes)


def cheapest(axes: Axes, axis: str, value: AxisValue) -> Shape | None:
    """Return about the cheapest shape of a design that has a value of an axis; None where there is none.

    Rows have few possible tokens unless their kind is the value: whatever is tried there is tried soon.
    """
    point: dict[str, Value] = {name: values[0] for name, values in axes.items()}
    point |= {name: min(axes[name], key=float) for name in ("draft_length", "num_paths", "batch")}
    point["vocab_size"] = min(
        (size for size in axes["vocab_size"] if size >= _SMALL), default=max(axes["vocab_size"])
    )
    point["kind"] = next((kind for kind in _OF_FEW_TOKENS[::-1] if kind in axes["kind"]), axes["kind"][0])
    found = _repaired(axes, {**point, axis: value}, {axis})
    return None if found is None else Shape(**found)


def cost(shape: Shape) -> float:
    """Return about how much a shape costs, in positions of traced code."""
    return _A_SHAPE + _RUNS.get(shape.kind, 1.0) * shape.work


def _repaired(axes: Axes, point: dict[str, Value], kept: Collection[str]) -> Point | None:
    """Return the point with smaller sizes if its arrays are too large, in a larger batch if it needs others.

    Values on the ``kept`` axes stay.
    """
    several = [size for size in axes["batch"] if size > 1]
    has_others = any(needs_others(name, point[name]) for name in kept)
    if has_others and point["batch"] == 1:
        if "batch" in kept:
            return None
        point["batch"] = min(several)
    if _is_too_large(axes, Shape(**point)):
        for name in (name for name in _SIZES if name not in kept):
            sizes = several if has_others and name == "batch" else axes[name]
            for size in sorted((size for size in sizes if size < point[name]), reverse=True):
                if not _is_too_large(axes, Shape(**point)):
                    break
                point[name] = size
        if len(kept) > 1 and _is_too_large(axes, Shape(**point)):
            return None
    if point["batch"] == 1:
        point |= {name: axes[name][0] for name in axes if needs_others(name, point[name])}
    if any(point.get(name) == value for name, value in _HIDING.items()):
        point |= {name: axes[name][0] for name in OPTIONS if name in axes and name not in kept}
    return _with_usual_rows(axes, point, kept)


def _with_usual_rows(axes: Axes, point: dict[str, Value], kept: Collection[str]) -> Point:
    """Return the point with rows of few possible tokens where the vocabulary is large.

    Rows of other kinds come with small vocabularies.
    """
    small = [size for size in axes["vocab_size"] if size < _LARGE]
    usual = [kind for kind in _OF_FEW_TOKENS if kind in axes["kind"]]
    if point["kind"] in usual:
        return point
    if "kind" in kept and small and "vocab_size" not in kept:
        point["vocab_size"] = min(point["vocab_size"], max(small))
    elif "kind" not in kept and usual and point["vocab_size"] >= _LARGE:
        point["kind"] = usual[point["vocab_size"] % len(usual)]
    return point


def _is_too_large(axes: Axes, shape: Shape) -> bool:
    """Whether arrays of a shape are too large, by more than its least batch or draft length."""
    is_long, is_several = (getattr(shape, name) > min(axes[name]) for name in ("draft_length", "batch"))
    too_long = is_long and (shape.positions > _MOST_POSITIONS or shape.numbers > MOST_NUMBERS)
    return too_long or (is_several and shape.numbers > _MOST_OF_A_BATCH)
