"""The check `shapes`: the output distribution at other sizes, number types, memory layouts, distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
traced exactly, and added up; code that cannot be traced is sampled at some of the shapes.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.results import (
    CheckResult,
    NoEvidenceError,
    Status,
    inconclusive,
    remarked,
)
from spec_oracle.audit.sampler.at_shapes import (
    confirm_at_shape,
    extent_of,
    laws_at_shapes,
    values_taken,
)
from spec_oracle.audit.sampler.scale import large
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import pace, too_slow
from spec_oracle.audit.sampler.trees import after_larger_trees
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.judged import one_shape
from spec_oracle.audit.shapes.sampled import SHAPES_REQUESTS, sampled_shapes, types_of
from spec_oracle.exact.errors import NotTracedError

SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
SHAPES_OF_TREES_SHARE: Final = (
    0.4  # Time for larger trees of tree samplers, beside that for all other shapes.
)
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.


def shapes(subject: SamplerSubject, context: Context) -> CheckResult:
    """Trace the code at every shape, then compare with samples; only sample where that fails.

    A tree sampler is run after larger trees first, and then on chains of every shape.
    """
    if not subject.on_trees:
        return _on_paths(subject, context)
    seconds = SHAPES_OF_TREES_SHARE * context.shape_seconds
    of_trees = after_larger_trees(subject, replace(context, budget=seconds, rate=context.rate / 2))
    if of_trees.status is Status.FAILED:
        return of_trees
    found = _on_paths(subject, replace(context, rate=context.rate / 2))
    if found.status is Status.FAILED:
        return found
    detail = f"{found.detail}; larger draft trees: {of_trees.detail}"
    worse = found if found.status is not Status.PASSED else of_trees
    scope = (*found.remarks.scope, *(f"larger draft trees: {line}" for line in of_trees.remarks.scope))
    notes = (*found.remarks.notes, *of_trees.remarks.notes)
    joined = replace(found, status=worse.status, cause=worse.cause, detail=detail)
    return remarked(joined, scope=scope, notes=notes)


def _on_paths(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge the code at every shape of the design, on paths; a tree sampler on chains."""
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
        axes = values_taken(subject, context, laws, covered)
        extent = extent_of(subject, context, axes)
        if axes and not covered.lossy:
            seconds = context.shape_seconds * (1 - SHAPES_SAMPLED_SHARE)
            covered.try_design(subject, context, extent.design, laws, seconds)
    except NoEvidenceError as error:
        # What was traced at other shapes is worth as little.
        covered, notes = Covered(not_traced=covered.not_traced), (f"shapes: {error}",)
        extent = extent_of(subject, context, {})
    if covered.lossy:
        wrong = covered.result(extent, context)
        return with_inputs(wrong, "traced_shape", subject, context, context.rate, covered.wrong)
    found = covered.result(extent, context, _by_samples(subject, context.after_claims(), covered))
    return remarked(found, notes=(*found.remarks.notes, *notes))


@part
def traced_shape(
    subject: SamplerSubject, context: Context, rate: float, *, shape: Shape, seed: int
) -> CheckResult:
    """Trace the code at one shape, and compare with the target; a defect is confirmed by samples."""
    del rate
    laws = laws_at_shapes(subject, context)
    try:
        return one_shape(subject, laws, shape, seed, partial(confirm_at_shape, subject, context, laws))
    except (NoEvidenceError, NotTracedError) as error:
        return inconclusive(str(error))


def _by_samples(subject: SamplerSubject, context: Context, covered: Covered) -> CheckResult:
    """Sample code at some shapes; where nothing was traced also at full vocabularies, with half the rate."""
    share = SHAPES_SAMPLED_SHARE if covered.shapes else 1.0
    seconds = context.shape_seconds * share
    requests = min(pace(subject, context) * seconds, SHAPES_MOST_REQUESTS)
    if covered.shapes:
        return sampled_shapes(subject, context, covered, requests, seconds)
    if requests < SHAPES_REQUESTS:
        raise too_slow(subject, context, SHAPES_REQUESTS, context.shape_share)
    half = replace(context, rate=context.rate / 2)
    small = sampled_shapes(subject, half, covered, requests, seconds)
    if small.status is not Status.PASSED:
        return small
    found, shapes_of = large(subject, context, context.rate / 2)
    covered.sampled += shapes_of
    detail = "; ".join(filter(None, (found.detail, small.detail)))
    measured = replace(found.measured, draws=small.measured.draws + found.measured.draws)
    found = remarked(found, scope=small.remarks.scope + found.remarks.scope)
    return replace(found, detail=detail, measured=measured)
