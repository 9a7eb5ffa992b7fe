"""Which shapes are tried, in which order, and how much of them was, in words.

The shapes are a covering design (`spec_oracle.audit.covering`): a few dozen have every value of every axis,
and come first, since a value that was never tried leaves an audit open.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.covering import Axes, Part, Point, Value, covering, parts_of
from spec_oracle.audit.shapes.axes import (
    AXES,
    NAMES,
    OPTIONS,
    AxisValue,
    Shape,
    needs_others,
)

MOST_NUMBERS: Final = 6_000_000
"""Most probabilities that are handed over in one call."""

_MOST_OF_A_BATCH: Final = 500_000
"""The same for several requests."""

_MOST_POSITIONS: Final = 300
"""Most positions of all requests, but for batches of the shortest drafts."""

_A_SHAPE: Final = 60
"""What any shape costs, in positions."""

_RUNS: Final = {"special": 0.8, "zero": 0.6, "one-hot": 0.6, "equal": 0.3}
"""How many runs rows of these kinds take, beside those of others."""

_LARGE: Final = 257
"""Tokens from which on rows have few possible tokens, but where a pair of values needs others."""

_OF_FEW_TOKENS: Final = ("special", "zero")
"""Kinds of such rows."""

_HIDING: Final = {"draft_lengths": "empty", "is_greedy": "itself"}
"""Optional arguments with which a request shows little of what others do to it: they come alone."""

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


def cost(shape: Shape) -> float:
    """Return about how much a shape costs, in positions of traced code."""
    return _A_SHAPE + _RUNS.get(shape.kind, 1.0) * shape.work


def _repaired(axes: Axes, point: dict[str, Value], kept: Collection[str]) -> Point | None:
    """Return the point with smaller sizes where its arrays are too large, and with others where it needs any.

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

    Other rows, which are asked for, come with small vocabularies.
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


_TITLES: Final = {"vocab_size": "V", "draft_length": "L", "num_paths": "K", "ids": "ids of"}


@dataclass(frozen=True)
class Extent:
    """A design, the values that must be tried, and the ``declared`` ones: all that the code takes, by axis.

    ``optional`` are values that need not be tried, by axis.
    """

    design: Design
    declared: Axes = field(default_factory=dict)
    optional: Axes = field(default_factory=dict)

    def missing(self, tried: Sequence[Shape]) -> dict[str, list[AxisValue]]:
        """Return the values that must be tried and were not, by axis."""
        return self._untried(tried, self.optional)

    def _untried(self, tried: Sequence[Shape], optional: Axes) -> dict[str, list[AxisValue]]:
        left = {}
        for axis, values in self.design.axes.items():
            known = {*optional.get(axis, ()), *(getattr(shape, axis) for shape in tried)}
            if some := [value for value in values if value not in known]:
                left[axis] = some
        return left

    def _pairs(self, shapes: Sequence[Shape]) -> set[Part]:
        axes = self.design.axes
        return {pair for one in shapes for pair in parts_of({axis: getattr(one, axis) for axis in axes}, 2)}

    def how_much(self, tried: Sequence[Shape]) -> str:
        """Say how many of the shapes were tried, and which part of the pairs of values these have."""
        planned = {shape for shape in tried if shape in set(self.design.shapes)}
        pairs = self._pairs(self.design.shapes)
        share = len(pairs & self._pairs(tried)) / max(len(pairs), 1)
        shown = math.floor(100 * share)
        return f"{len(planned)} of {len(self.design.shapes)} input shapes, {shown} % of the pairs of values"

    def rest(self, tried: Sequence[Shape]) -> str:
        """Say which values were not tried, those that need not be included; "" where all were."""
        named = "; ".join(self.named(axis, *values) for axis, values in self._untried(tried, {}).items())
        return f"; not tried: {named}" if named else ""

    def line(self, tried: Sequence[Shape]) -> str:
        """Say how much was tried, and what was not."""
        return f"tried: {self.how_much(tried)}{self.rest(tried) or '; every value of every axis'}"

    @property
    def scope(self) -> tuple[str, ...]:
        """Lines that say what the user declared."""
        return tuple(
            f"declared: the code takes only {self.named(axis, *values)}; no other was tried"
            for axis, values in self.declared.items()
        )

    def named(self, axis: str, *values: AxisValue) -> str:
        """Return values of an axis as people read them."""
        shown = ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in values)
        return f"{_TITLES.get(axis, axis)} {shown}"

    def declaration(self, axis: str, refused: AxisValue) -> str:
        """Return the option by which a user declares that the code need not take a value, "" for none."""
        if axis not in NAMES:
            return ""
        taken = ",".join(str(value) for value in self.design.axes[axis] if value != refused)
        return f"--only {NAMES[axis]}={taken}"


def budget_for(design: Design, tried: Sequence[Shape], pace: float, budget: float) -> int:
    """Return about which ``--budget`` lets every value of every axis be tried, in seconds.

    ``pace`` is what a unit of `cost` took; twice that is allowed for.
    """
    first = design.shapes[: design.of_values]
    needed = [2 * pace * cost(shape) for shape in first]
    largest = max((n for n, shape in zip(needed, first, strict=True) if shape not in tried), default=0.0)
    seconds = max(sum(needed), largest / effort.SHAPES_ONE_SHARE) / effort.SHAPES_VALUES_SHARE
    return 10 * math.ceil(max(seconds, 1.5 * budget) / 10)


def scope_of(shapes: Sequence[Shape], drafts: int, assumed: float) -> list[str]:
    """Say at which shapes the output distribution was found, after so many drafts, and what is assumed."""
    axes = {name: {getattr(shape, name) for shape in shapes} for name in AXES}
    sizes = ("vocab_size", "draft_length", "num_paths", "batch")
    vocab, length, paths, batch = (_range(axes[name]) for name in sizes)
    forms = "; ".join(", ".join(sorted(axes[name])) for name in ("dtype", "ids", "layout"))
    given = {(name, value) for shape in shapes for name, value in shape.options.items()}
    forms += "".join(
        f"; {name} {', '.join(sorted(value for one, value in given if one == name))}"
        for name in sorted({name for name, _ in given})
    )
    law = (
        f"output distribution exact at {len(shapes)} input shapes, after {drafts} drafts: V {vocab}, "
        f"L {length}, K {paths}; batch size {batch}; {forms}; {', '.join(sorted(axes['kind']))} probabilities"
    )
    few = (
        "assumption: where the code reads a sampled id, only the drafted, first, last and likeliest ids were "
        f"run (up to {assumed:.0%} of the probability at one shape is represented, not run)"
    )
    largest = max(axes["vocab_size"])
    grid = (
        "rounding: a float32 uniform is one of 2^24 numbers, which moves the output distribution by up to "
        f"V 2^-25 (by {_rounded_up(largest * 2.0**-25):.2g} at V {largest:,}); uniforms are taken as exact"
    )
    return [law, *([few] if assumed else []), grid]


def _rounded_up(value: float) -> float:
    """Return the least number of two digits that is not below a positive one: a bound must not shrink."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def _range(values: set[AxisValue]) -> str:
    return f"{min(values)} to {max(values)} ({len(values)} sizes)" if len(values) > 1 else str(*values)
