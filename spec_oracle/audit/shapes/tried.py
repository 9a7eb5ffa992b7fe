"""What was tried of the shapes, and the check result that it adds up to."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.effort import SHAPES_ONE_SHARE
from spec_oracle.audit.experiment import Experiment, NoDecisionError, TracedExperiment
from spec_oracle.audit.results import (
    CheckResult,
    Cover,
    How,
    NoEvidenceError,
    Remarks,
    Status,
    failed,
    inconclusive,
    passed,
)
from spec_oracle.audit.shapes.axes import AXES, OPTIONS, SPARSE, AxisValue, Shape
from spec_oracle.audit.shapes.design import Design, Extent, budget_for, cost, scope_of
from spec_oracle.audit.shapes.places import Place
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact.errors import NotTracedError, TooManyBranchesError
from verifiers import Siblings

SHAPES_PAIR_SHARE: Final = 0.03
SHAPES_SECONDS: Final = 1.0  # Seconds that a shape may take in any case.

Confirm: TypeAlias = Callable[[TracedExperiment], object]
"""Raises `NoEvidenceError` where a call that was traced as wrong may be right."""


@dataclass
class TriedShapes:
    """The places that were ``traced`` up to now, and those that were not, by reason.

    ``make`` returns the experiment of one call at a place, whose paths are drawn by ``drafting``; one that is
    wrong is handed to ``confirm``. ``sampled`` shapes were sampled; ``refused`` are values by axis at which
    the code raised, with the reason; ``raised`` are other shapes at which it did; ``seconds`` were taken by
    so many ``units`` of `cost`; ``too_many`` is the least vocabulary all tokens of which are too many
    outcomes.
    """

    drafting: Siblings
    make: Callable[[Place], Experiment]
    confirm: Confirm = lambda _: None
    traced: dict[Place, TracedExperiment] = field(default_factory=dict, init=False)
    sampled: list[Shape] = field(default_factory=list, init=False)
    refused: dict[tuple[str, AxisValue], str] = field(default_factory=dict, init=False)
    raised: list[tuple[Shape, str]] = field(default_factory=list, init=False)
    not_traced: list[Place] = field(default_factory=list, init=False)
    left_out: Counter[str] = field(default_factory=Counter, init=False)
    seconds: float = field(default=0.0, init=False)
    units: float = field(default=0.0, init=False)
    too_many: float = field(default=math.inf, init=False)

    @property
    def wrong(self) -> Place | None:
        """The place with the largest distance, if that is a defect."""
        wrong = [place for place, one in self.traced.items() if one.is_wrong]
        return max(wrong, key=lambda place: self.traced[place].total_variation, default=None)

    @property
    def wrong_inputs(self) -> dict[str, object]:
        """The shape that is wrong, and the seed of its rows, by name; nothing where none is."""
        return {"shape": self.wrong.shape, "seed": self.wrong.seed} if self.wrong else {}

    def trace_design(self, design: Design, context: Context, until: float, end: float) -> None:
        """Trace the shapes of a design in their order, until one is wrong, or the processor time is over.

        Those that have every value of every axis come first, ``until`` a time of their own: a value that was
        not tried leaves the audit open.
        """
        shapes, count = design.shapes[: context.shapes.most], design.of_values
        self.trace_all(shapes[:count], until, context.seed, SHAPES_ONE_SHARE)
        self.trace_all(shapes[count:], end, context.seed + count, SHAPES_PAIR_SHARE)

    def trace_all(self, shapes: Sequence[Shape], end: float, seed: int, share: float) -> None:
        """Trace shapes until one is wrong, or the processor time is over; rows have seeds from ``seed`` on.

        Each may take a ``share`` of the time that is left. Errors as of `trace`.
        """
        for number, planned in enumerate(shapes, start=seed):
            started = time.process_time()
            if started > end or self.wrong:
                return
            shape, left = self._within_reach(planned), end - started
            limit = started + max(min(SHAPES_SECONDS, left), share * left)
            if error := self.trace(Place(shape, number, self.drafting), limit):
                self.left_out[short(error)] += 1
                if isinstance(error, SubjectRaisedError):
                    self.raised.append((shape, short(error)))
            self.seconds += time.process_time() - started
            self.units += cost(shape)

    def trace(self, place: Place, end: float = math.inf) -> Exception | None:
        """Trace the call at a place; return the error if it cannot be traced, or if the code raises.

        Raises `ContractError` for what nobody may return, and `NoEvidenceError` where ordinary samples
        contradict what was traced.
        """
        shape = place.shape
        try:
            found = traced_at(self.make(place), end)
            if found.is_wrong:
                self.confirm(found)
        except SubjectRaisedError as error:
            return error
        except (NotTracedError, NoDecisionError) as error:
            self.not_traced.append(place)
            is_too_many = isinstance(error, TooManyBranchesError)
            if is_too_many and shape.kind not in SPARSE and shape.positions < shape.vocab_size:
                self.too_many = min(self.too_many, shape.vocab_size)
            return error
        except NoEvidenceError:
            self.not_traced.append(place)
            raise
        except ContractError as error:
            error.args = (f"{error}, at {shape}",)
            raise
        self.traced[place] = found
        return None

    def _within_reach(self, shape: Shape) -> Shape:
        """Return the shape, with sparse rows where others have too many outcomes for this code."""
        if shape.vocab_size >= self.too_many and shape.kind not in SPARSE:
            return replace(shape, kind=SPARSE[0])
        return shape

    def result(self, extent: Extent, context: Context, sampled: CheckResult | None = None) -> CheckResult:
        """Return the result: what was found exactly, and what samples at shapes come to, where some were.

        It is inconclusive where a value of an axis was not tried, unless ``context`` limits the shapes.
        """
        if self.wrong:
            return replace(_said(self.traced[self.wrong]), remarks=Remarks(coverage=self.coverage))
        tried = [place.shape for place in self.traced]
        known = [*tried, *self.sampled]
        exact = f"output distribution exact at {extent.how_much(tried)}{extent.rest(known)}" if tried else ""
        how = How.REPRESENTED if any(one.traced.assumed for one in self.traced.values()) else How.PROVEN
        remarks = Remarks(self.scope(extent), coverage=self.coverage)
        if sampled is not None:
            detail = "; ".join(filter(None, (exact, sampled.detail)))
            remarks = replace(remarks, scope=(*remarks.scope, *sampled.remarks.scope))
            found = replace(sampled, detail=detail, how=how if tried else sampled.how, remarks=remarks)
        elif not tried:
            reasons = ", ".join(self.left_out) or "raise --budget"
            return inconclusive(f"no shape was tried: {reasons}", scope=extent.scope)
        else:
            found = replace(passed(exact, how=how), remarks=remarks)
        why, do = self._open(extent, context) if tried or self.refused else ("", "")
        if found.status is Status.PASSED and why:
            detail, remarks = f"{why}; {found.detail}", replace(found.remarks, do=do)
            return replace(found, status=Status.INCONCLUSIVE, detail=detail, remarks=remarks)
        return found

    def _open(self, extent: Extent, context: Context) -> tuple[str, str]:
        """Say what leaves the check open, values not tried or shapes at which the code raised; what to do."""
        if self.refused:
            (axis, value), reason = next(iter(self.refused.items()))
            do = extent.declaration(axis, value)
            how = f"if it need not take that, declare what it takes: {do}" if do else "it must take these"
            return f"{extent.named(axis, value)}: {reason}; {how}", do
        if self.raised:
            shape, reason = self.raised[0]
            return f"the code raised at {len(self.raised)} input shapes, first at {shape}: {reason}", ""
        tried = [*(place.shape for place in self.traced), *self.sampled]
        missing = extent.missing(tried)
        if not missing or context.shapes.most is not None:
            return "", ""
        budget = budget_for(extent.design, tried, self.seconds / self.units, context.budget)
        listed = "; ".join(extent.named(axis, *values) for axis, values in missing.items())
        do = f"--budget {budget}"
        return f"not tried in this time: {listed} ({do} should do)", do

    def scope(self, extent: Extent) -> tuple[str, ...]:
        """Return lines that say at which shapes the output distribution was found."""
        if not self.traced:
            return extent.scope
        found, shapes = [one.traced for one in self.traced.values()], [place.shape for place in self.traced]
        drafts, assumed = sum(one.runs for one in found), max(one.assumed for one in found)
        left_out = (
            f"not traced at {count} input shapes: {reason}" for reason, count in self.left_out.items()
        )
        return (
            *scope_of(shapes, drafts, assumed),
            extent.line([*shapes, *self.sampled]),
            *extent.scope,
            *left_out,
        )

    @property
    def coverage(self) -> dict[str, dict[str, Cover]]:
        """What is known at each value of each axis; the worst, if that is a defect, else the best."""
        by_cover: dict[Cover, list[Shape]] = defaultdict(list)
        for place, one in self.traced.items():
            right = Cover.REPRESENTED if one.traced.assumed else Cover.PROVEN
            by_cover[Cover.WRONG if one.is_wrong else right].append(place.shape)
        known = {
            Cover.NOT_TRACED: [*(shape for shape, _ in self.raised), *(one.shape for one in self.not_traced)],
            Cover.SAMPLED: self.sampled,
            **{cover: by_cover[cover] for cover in (Cover.REPRESENTED, Cover.PROVEN, Cover.WRONG)},
        }
        coverage = {}
        given = {name for shapes in known.values() for shape in shapes for name in shape.options}
        for axis, values in {**AXES, **{name: OPTIONS[name] for name in OPTIONS if name in given}}.items():
            found = dict.fromkeys(values, Cover.UNTRIED)
            for cover, shapes in known.items():
                found.update({getattr(shape, axis): cover for shape in shapes})
            listed = found if isinstance(values[0], str) else sorted(found)
            found.update({value: Cover.NOT_TRACED for name, value in self.refused if name == axis})
            coverage[axis] = {str(value): found[value] for value in listed}
        return coverage


def short(error: Exception) -> str:
    """Return the first line of an error, without its place in the code."""
    return str(error).partition("\n")[0].partition(" (at ")[0][:100]


def at_one_place(experiment: Experiment, confirm: Confirm = lambda _: None) -> CheckResult:
    """Trace one call at a place; errors are those of its laws, and of ``confirm``."""
    found = traced_at(experiment)
    if found.is_wrong:
        confirm(found)
    return _said(found)


def traced_at(experiment: Experiment, end: float = math.inf) -> TracedExperiment:
    """Trace one call, up to a processor time; errors are those of its laws."""
    assert experiment.trace is not None
    return TracedExperiment(experiment, experiment.trace(0, end))


def _said(found: TracedExperiment) -> CheckResult:
    size = found.total_variation
    says = f"total variation {size:.3g} at {found.experiment.what}{found.traced.remark}"
    if found.is_wrong:
        return failed(says, total_variation=size, how=How.PROVEN)
    return passed(says, how=How.PROVEN)
