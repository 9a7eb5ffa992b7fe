"""The check `shapes`: the output distribution at other sizes, number types, memory layouts, distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
traced exactly, and added up; code that cannot be traced is sampled at some of the shapes.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.results import (
    CheckResult,
    How,
    NoEvidenceError,
    Status,
    TooSlowError,
    inconclusive,
    remarked,
)
from spec_oracle.audit.sampler.at_shapes import confirm_at_shape, laws_at_shapes
from spec_oracle.audit.sampler.large import large
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import pace, too_slow
from spec_oracle.audit.shapes.axes import AXES, OPTIONS, AxisValue, Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.design import Extent, design
from spec_oracle.audit.shapes.judged import Laws, one_shape
from spec_oracle.audit.shapes.sampled import SHAPES_REQUESTS, sampled, types_of
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.sampler import parameters_of

SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.


def shapes(subject: SamplerSubject, context: Context) -> CheckResult:
    """Trace the code at every shape, then compare with samples; only sample where that fails."""
    if not types_of(subject.code, context.shapes.dtypes):
        return inconclusive(
            f"numpy has no rows of type {', '.join(context.shapes.dtypes)}: --array torch has"
        )
    declared = {**subject.facts.only, **context.shapes.only}
    context = replace(context, shapes=replace(context.shapes, only=declared))
    notes: tuple[str, ...] = ()
    laws = laws_at_shapes(subject, context)
    covered = Covered(confirm=partial(confirm_at_shape, subject, context, laws))
    try:
        axes = _forms(subject, context, laws, covered)
        extent = _extent(subject, context, axes)
        if axes and not covered.lossy:
            seconds = context.shape_seconds * (1 - SHAPES_SAMPLED_SHARE)
            covered.try_design(subject, context, extent.design, laws, seconds)
    except NoEvidenceError as error:
        # What was traced at other shapes is worth as little.
        covered, notes = Covered(not_traced=covered.not_traced), (f"shapes: {error}",)
        extent = _extent(subject, context, {})
    if covered.lossy:
        wrong = covered.result(extent, context)
        return with_inputs(wrong, "traced_shape", subject, context, context.rate, covered.wrong)
    found = covered.result(extent, context, _by_samples(subject, context.after_claims(), covered))
    return remarked(found, notes=(*found.remarks.notes, *notes))


def _extent(subject: CalledAsSampler, context: Context, axes: Mapping[str, tuple[AxisValue, ...]]) -> Extent:
    return Extent(design(**{**context.shapes.only, **axes}), context.shapes.only, _optional(subject, context))


@part
def traced_shape(
    subject: SamplerSubject, context: Context, rate: float, *, shape: Shape, seed: int
) -> CheckResult:
    """Trace the code at one shape, and compare with the target; a defect is confirmed by samples."""
    del rate
    laws = laws_at_shapes(subject, context)
    try:
        return one_shape(subject, laws, shape, seed, partial(confirm_at_shape, subject, context, laws))
    except NoEvidenceError as error:
        return inconclusive(str(error))


def _optional(subject: CalledAsSampler, context: Context) -> dict[str, tuple[AxisValue, ...]]:
    """Return values that need not be tried: types that do not count, and one path of code for several.

    With one path the arrays of the contract have no axis of paths.
    """
    types = tuple(dtype for dtype in AXES["dtype"] if dtype not in context.shapes.dtypes)
    return {"dtype": types, "num_paths": (1,) if subject.num_paths > 1 else ()}


def _forms(
    subject: SamplerSubject, context: Context, laws: Laws, covered: Covered
) -> dict[str, tuple[AxisValue, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be traced."""
    joint = context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return {}
    forms = {"dtype": types_of(subject.code), **{name: AXES[name] for name in ("ids", "layout")}}
    forms["num_paths"] = (subject.num_paths,)
    if subject.num_paths > 1:
        forms["num_paths"] = (subject.num_paths, *(k for k in AXES["num_paths"] if k != subject.num_paths))
    forms |= {name: values for name, values in context.shapes.only.items() if name in forms}
    usual: dict[str, object] = {"vocab_size": 5, "draft_length": 3, "num_paths": subject.num_paths}
    plain = Shape(**{**usual, **{name: values[0] for name, values in context.shapes.only.items()}})
    optional = _optional(subject, context)
    taken: dict[str, tuple[AxisValue, ...]] = {}
    trials: dict[Shape, Covered] = {}
    for name, values in forms.items():
        taken[name] = ()
        for value in values:
            shape = replace(plain, **{name: value})
            if shape not in trials:
                trials[shape] = _trial(subject, context, shape, laws, covered)
                covered.shapes += trials[shape].shapes
                covered.not_traced += trials[shape].not_traced
            trial = trials[shape]
            if trial.other_types:
                covered.other_types |= trial.other_types
            elif trial.shapes and not trial.left_out:
                taken[name] += (value,)
            elif shape == plain and not trial.raised:
                return {}
            else:
                reason = next(iter(trial.left_out))
                covered.left_out.update([f"{name} {value}: {reason}"])
                if trial.raised and value not in optional.get(name, ()):
                    covered.refused[name, value] = reason
    if subject.num_paths == 1:
        parameters = parameters_of(subject.code.function)
        taken |= {name: (*values,) for name, values in OPTIONS.items() if name in parameters}
    return {name: values for name, values in taken.items() if values}


def _trial(subject: SamplerSubject, context: Context, shape: Shape, laws: Laws, covered: Covered) -> Covered:
    """Judge one shape; code that is made for several paths may refuse one.

    It shows whether code can be traced at all, and may take its time.
    """
    trial = Covered(confirm=covered.confirm)
    end = time.process_time() + SHAPES_FIRST_SECONDS / effort.SHAPES_ONE_SHARE
    try:
        trial.try_shapes(subject, context, [shape], laws, end)
    except NoEvidenceError:
        covered.not_traced += trial.not_traced
        raise
    except ContractError as error:
        if shape.num_paths == subject.num_paths or shape.num_paths != 1:
            raise
        trial.leave_out(error, shape, tree_of(shape, context.seed, subject.drafting))
    return trial


def _by_samples(subject: SamplerSubject, context: Context, covered: Covered) -> CheckResult:
    """Sample code at some shapes; where nothing was traced also at full vocabularies, with half the rate."""
    share = SHAPES_SAMPLED_SHARE if covered.shapes and not covered.unlike else 1.0
    seconds = context.shape_seconds * share
    requests = min(pace(subject, context) * seconds, SHAPES_MOST_REQUESTS)
    if covered.shapes:
        return sampled(subject, context, covered, requests, seconds)
    if requests < SHAPES_REQUESTS:
        raise TooSlowError(too_slow(subject, context, SHAPES_REQUESTS))
    half = replace(context, rate=context.rate / 2)
    small = sampled(subject, half, covered, requests, seconds)
    if small.status is not Status.PASSED:
        return small
    found, shapes_of = large(subject, context, context.rate / 2)
    covered.sampled += shapes_of
    detail = "; ".join(filter(None, (found.detail, small.detail)))
    measured = replace(found.measured, draws=small.measured.draws + found.measured.draws)
    found = remarked(found, scope=small.remarks.scope + found.remarks.scope)
    return replace(found, detail=detail, measured=measured)
