"""The values of each axis of shapes, and which shapes are tried.

The shapes are a covering design (`spec_oracle.audit.covering`): a few dozen have every value of every axis,
and come first, since a value that was never tried leaves an audit open.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from spec_oracle.audit.covering import Axes, Point, Value, covering
from spec_oracle.audit.shapes.trees import OPTIONS, Shape

AxisValue: TypeAlias = Any  # an int on axes of sizes, a str on others

VOCABULARIES: Final = (3, 2, 5, 7, 8, 128, 257, 1_000, 32_769, 65_537, 151_936)
"""A power of two and its neighbour, a tile, more than ids of 8, 15 and 16 bits hold, and sizes in use."""

LENGTHS: Final = (3, 1, 2, 5, 8, 16)
BATCHES: Final = (1, 2, 3, 5, 33, 130, 1_030)
"""More than limits that engines have or had: a capacity of 2, tiles of 32 and 128, blocks of 1,024."""

PLACES: Final = ("first", "last", "second", "middle")
TYPES: Final = ("float64", "float32", "bfloat16", "float16")
IDS: Final = ("int64", "int32")
LAYOUTS: Final = ("contiguous", "sliced", "transposed")
KINDS: Final = ("flat", "tiny", "zero", "one-hot", "equal", "near", "special")

_OF_OTHERS: Final[Mapping[str, Sequence[str]]] = {
    "place": PLACES[1:],
    "draft_lengths": ("ragged",),
    "is_greedy": ("others", "every second other"),
    "generators": ("others", "all"),
}


def needs_others(axis: str, value: AxisValue) -> bool:
    """Whether a value means something only where a batch has more than one request."""
    return value in _OF_OTHERS.get(axis, ())


AXES: Final[Mapping[str, Sequence[AxisValue]]] = {
    "vocab_size": VOCABULARIES,
    "draft_length": LENGTHS,
    "batch": BATCHES,
    "kind": KINDS,
    "num_paths": (1, 2, 3),
    "place": PLACES,
    "dtype": TYPES,
    "layout": LAYOUTS,
    "ids": IDS,
}

NAMES: Final[Mapping[str, str]] = {
    "vocab_size": "vocabularies",
    "draft_length": "lengths",
    "batch": "batches",
    "num_paths": "paths",
    "layout": "layouts",
    "ids": "ids",
}
"""Axes whose values a user can declare to be all that the code takes, and the names of the options."""

# The design.

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
