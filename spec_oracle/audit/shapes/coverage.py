"""How much of a design was tried, in words, and the check result that it adds up to."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import Axes, Design, Part, cost, parts_of
from spec_oracle.audit.experiment import TracedExperiment
from spec_oracle.audit.results import (
    CheckResult,
    Cover,
    How,
    Remarks,
    Status,
    failed,
    inconclusive,
    passed,
)
from spec_oracle.audit.shapes.axes import AXES, NAMES, AxisValue
from spec_oracle.audit.shapes.trees import OPTIONS, Place, Shape
from spec_oracle.audit.shapes.tried import TriedInTurn, short

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
        """Return the number of shapes tried, and the share of all pairs of values that they have."""
        planned, pairs = {*self.design.shapes}, self._pairs(self.design.shapes)
        percent = math.floor(100 * len(pairs & self._pairs(tried)) / max(len(pairs), 1))
        count = f"{len(planned.intersection(tried))} of {len(planned)} input shapes"
        return f"{count}, {percent} % of the pairs of values"

    def rest(self, tried: Sequence[Shape]) -> str:
        """Return the values that were not tried, optional ones included, in words; "" if there are none."""
        left = self._untried(tried, {})
        return f"; not tried: {listed(left)}" if left else ""

    def line(self, tried: Sequence[Shape]) -> str:
        """Say how much was tried, and what was not."""
        return f"tried: {self.how_much(tried)}{self.rest(tried) or '; every value of every axis'}"

    @property
    def scope(self) -> tuple[str, ...]:
        """Lines that say what the user declared."""
        only = (listed({axis: values}) for axis, values in self.declared.items())
        return tuple(f"declared: the code takes only {values}; no other was tried" for values in only)

    def declaration(self, axis: str, refused: AxisValue) -> str:
        """Return the option by which a user declares that the code need not take a value, "" for none."""
        if axis not in NAMES:
            return ""
        return self._only(axis, [refused])

    def _only(self, axis: str, refused: Collection[AxisValue]) -> str:
        taken = ",".join(map(str, sorted({*self.design.axes[axis]} - {*refused})))
        return f"--only {NAMES[axis]}={taken}"

    def declarations(self, taken: Sequence[Shape], raised: Sequence[Shape]) -> str:
        """Return the options that declare why code raised, by the values of one axis or two; "" for none.

        No shape that was ``taken`` has a value that they leave out, and each one that ``raised`` has one.
        """
        refused = dict[str, set[AxisValue]]()
        for axis in NAMES.keys() & self.design.axes:
            known, wrong = ({getattr(shape, axis) for shape in shapes} for shapes in (taken, raised))
            if (left := wrong - known) and not left.issuperset(self.design.axes[axis]):
                refused[axis] = left
        reasons = (
            axes
            for axes in (*combinations(refused, 1), *combinations(refused, 2))
            if all(any(getattr(shape, axis) in refused[axis] for axis in axes) for shape in raised)
        )
        # Few axes first, then few values: others raised by chance, where few shapes have them.
        fewest = min(reasons, key=lambda axes: (len(axes), sum(len(refused[a]) for a in axes)), default=())
        return " ".join(self._only(axis, refused[axis]) for axis in NAMES if axis in fewest)


def listed(values: Axes) -> str:
    """Return values by axis as people read them.

    >>> listed({"vocab_size": (2, 32_769), "layout": ("sliced",)})
    'V 2, 32,769; layout sliced'
    """
    shown = {
        axis: ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in some)
        for axis, some in values.items()
    }
    return "; ".join(f"{_TITLES.get(axis, axis)} {some}" for axis, some in shown.items())


def result_of(
    tried: TriedInTurn[Place], extent: Extent, context: Context, sampled: CheckResult | None = None
) -> CheckResult:
    """Return the result of the traced shapes, and of the sampled ones if there are any.

    It is inconclusive where a value of an axis was not tried, unless ``context`` limits the shapes.
    """
    if tried.wrong:
        return replace(said_of(tried.traced[tried.wrong]), remarks=Remarks(coverage=coverage_of(tried)))
    shapes = [place.shape for place in tried.traced]
    if not shapes and sampled is None:
        reasons = ", ".join(tried.left_out) or "raise --budget"
        return inconclusive(f"no shape was tried: {reasons}", scope=extent.scope)
    rest = extent.rest([*shapes, *tried.sampled])
    exact = f"output distribution exact at {extent.how_much(shapes)}{rest}" if shapes else ""
    how = How.REPRESENTED if any(one.traced.assumed for one in tried.traced.values()) else How.PROVEN
    found = passed(exact, how=how) if sampled is None else sampled
    detail = exact if sampled is None else "; ".join(filter(None, (exact, sampled.detail)))
    why, do = _open(tried, extent, context) if shapes or tried.refused else ("", "")
    if found.status is Status.PASSED and why:
        found, detail = replace(found, status=Status.INCONCLUSIVE), f"{why}; {detail}"
    else:
        do = step_of_a_part(found)
    lines = (*_scope(tried, extent), *found.remarks.scope)
    remarks = Remarks(lines, coverage=coverage_of(tried), do=do)
    how = how if shapes else found.how or How.SAMPLED
    return replace(found, detail=detail, how=how, remarks=remarks)


def said_of(found: TracedExperiment) -> CheckResult:
    """Return the total variation at a place, and the token with the largest gap of a wrong one."""
    size = found.total_variation
    says = f"total variation {size:.3g} at {found.experiment.what}{found.traced.remark}"
    if found.is_wrong:
        return failed(says, total_variation=size, how=How.PROVEN)
    return passed(says, how=How.PROVEN)


def step_of_a_part(found: CheckResult) -> str:
    """Return what to do about a part of a check: more time, without the number of seconds, or its own step.

    A part was given a part of the budget, so that its seconds are not those of ``--budget``.
    """
    do = found.remarks.do
    return "--budget" if do.startswith("--budget ") else do


def _open(tried: TriedInTurn[Place], extent: Extent, context: Context) -> tuple[str, str]:
    """Say what leaves the check open, values not tried or shapes at which the code raised; what to do."""
    shapes = [*(place.shape for place in tried.traced), *tried.sampled]
    if tried.refused:
        (axis, value), reason = next(iter(tried.refused.items()))
        do = extent.declaration(axis, value)
        how = f"if it need not take that, declare what it takes: {do}" if do else "it must take these"
        return f"{listed({axis: [value]})}: {reason}; {how}", do
    if tried.raised:
        first, error = next(iter(tried.raised.items()))
        do = extent.declarations(shapes, [place.shape for place in tried.raised])
        how = f"; if it need not take these, declare what it takes: {do}" if do else ""
        count = len(tried.raised)
        return f"the code raised at {count} input shapes, first at {first.shape}: {short(error)}{how}", do
    missing = extent.missing(shapes)
    if not missing or context.shapes.most is not None:
        return "", ""
    do = f"--budget {_budget_for(extent.design, shapes, tried.seconds / tried.units, context.budget)}"
    return f"not tried in this time: {listed(missing)} ({do} should do)", do


def _budget_for(design: Design, tried: Sequence[Shape], pace: float, budget: float) -> int:
    """Return about which ``--budget`` lets every value of every axis be tried, in seconds.

    ``pace`` is what a unit of `cost` took; twice that is allowed for.
    """
    first = design.shapes[: design.of_values]
    needed = [2 * pace * cost(shape) for shape in first]
    largest = max((n for n, shape in zip(needed, first, strict=True) if shape not in tried), default=0.0)
    seconds = max(sum(needed), largest / effort.SHAPES_ONE_SHARE) / effort.SHAPES_VALUES_SHARE
    return 10 * math.ceil(max(seconds, 1.5 * budget) / 10)


def _scope(tried: TriedInTurn[Place], extent: Extent) -> tuple[str, ...]:
    """Return lines that say at which shapes the output distribution was found."""
    left_out = [f"not traced at {count} input shapes: {reason}" for reason, count in tried.left_out.items()]
    if not tried.traced:
        return (*extent.scope, *left_out)
    found, shapes = [one.traced for one in tried.traced.values()], [place.shape for place in tried.traced]
    return (
        *scope_of(shapes, sum(one.runs for one in found), max(one.assumed for one in found)),
        extent.line([*shapes, *tried.sampled]),
        *extent.scope,
        *left_out,
    )


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
        f"run (up to {100 * assumed:.0f} % of the probability at one shape is represented, not run)"
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


def coverage_of(tried: TriedInTurn[Place]) -> dict[str, dict[str, Cover]]:
    """Return what is known at each value of each axis; the worst, if that is a defect, else the best."""
    known = [
        *((Cover.NOT_TRACED, place.shape) for place in (*tried.raised, *tried.not_traced)),
        *((Cover.SAMPLED, shape) for shape in tried.sampled),
        *((Cover.REPRESENTED, place.shape) for place, one in tried.traced.items() if one.traced.assumed),
        *((Cover.PROVEN, place.shape) for place, one in tried.traced.items() if not one.traced.assumed),
        *((Cover.WRONG, place.shape) for place, one in tried.traced.items() if one.is_wrong),
    ]
    given = {name for _, shape in known for name in shape.options}
    coverage = {}
    for axis, values in {**AXES, **{name: OPTIONS[name] for name in OPTIONS if name in given}}.items():
        found = dict.fromkeys(values, Cover.UNTRIED)
        found.update({getattr(shape, axis): cover for cover, shape in known})
        shown = found if isinstance(values[0], str) else sorted(found)
        found.update({value: Cover.NOT_TRACED for name, value in tried.refused if name == axis})
        coverage[axis] = {str(value): found[value] for value in shown}
    return coverage
