"""How much of a design was tried, in words: shapes, pairs of values, and the values that are missing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.shapes.axes import AXES, Axes, AxisValue, Shape
from spec_oracle.audit.shapes.design import Design
from spec_oracle.audit.shapes.pairs import cost, pairs_of

NAMES: Final[Mapping[str, str]] = {
    "vocab_size": "vocabularies",
    "draft_length": "lengths",
    "batch": "batches",
    "num_paths": "paths",
    "layout": "layouts",
    "ids": "ids",
}
"""Axes whose values a user can declare to be all that the code takes, and the names of the options."""

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
        known = self._known(tried)
        open_values = {
            axis: [v for v in values if v not in known[axis] and v not in self.optional.get(axis, ())]
            for axis, values in self.design.axes.items()
        }
        return {axis: values for axis, values in open_values.items() if values}

    def _known(self, tried: Sequence[Shape]) -> dict[str, set[AxisValue]]:
        return {axis: {getattr(shape, axis) for shape in tried} for axis in self.design.axes}

    def how_much(self, tried: Sequence[Shape]) -> str:
        """Say how many of the shapes were tried, and which part of the pairs of values these have."""
        planned = {shape for shape in tried if shape in set(self.design.shapes)}
        pairs = self.design.pairs
        share = len(pairs & pairs_of(tried, self.design.axes)) / max(len(pairs), 1)
        shown = math.floor(100 * share)
        return f"{len(planned)} of {len(self.design.shapes)} input shapes, {shown} % of the pairs of values"

    def rest(self, tried: Sequence[Shape]) -> str:
        """Say which values were not tried, those that need not be included; "" where all were."""
        known = self._known(tried)
        missing = {
            axis: [value for value in values if value not in known[axis]]
            for axis, values in self.design.axes.items()
        }
        named = "; ".join(self.named(axis, *values) for axis, values in missing.items() if values)
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

    def how_to_declare(self, axis: str, refused: AxisValue) -> str:
        """Say how a user declares that the code need not take a value."""
        if axis not in NAMES:
            return "it must take these"
        taken = ",".join(str(value) for value in self.design.axes[axis] if value != refused)
        return f"if it need not take that, declare what it takes: --only {NAMES[axis]}={taken}"


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
        "run, and of drafted ids with equal probabilities one was run "
        f"(up to {assumed:.0%} of the probability at one shape is represented, not run)"
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
