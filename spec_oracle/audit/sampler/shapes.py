"""The check `shapes`: the output distribution at other sizes, number types, memory layouts, distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
traced exactly, and added up; code that cannot be traced is sampled at some of the shapes. A tree sampler is
also run after every tree of each kind of `spec_oracle.audit.larger_trees`, those with the fewest trees first.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import design
from spec_oracle.audit.draftings import ToyDrafts
from spec_oracle.audit.draws import Calls, pace
from spec_oracle.audit.experiment import FoundBy, Ledger, TracedOutcome, find
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.results import (
    CheckResult,
    How,
    LawResult,
    NoEvidenceError,
    Status,
    inconclusive,
    remarked,
)
from spec_oracle.audit.sampler.at_shapes import MAY_REFUSE_IDS, CallsAtShapes
from spec_oracle.audit.sampler.joint import in_addition, law_after_all
from spec_oracle.audit.sampler.sampled_shapes import SHAPES_SAMPLED_SHARE, by_samples
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import Known
from spec_oracle.audit.shapes.axes import AXES, AxisValue
from spec_oracle.audit.shapes.coverage import Extent, result_of, said_of, step_of_a_part
from spec_oracle.audit.shapes.places import traced_at
from spec_oracle.audit.shapes.trees import OPTIONS, Place, Shape
from spec_oracle.audit.shapes.tried import TriedInTurn, in_turn, short
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.contracts.sampler import parameters_of
from spec_oracle.exact.errors import NotTracedError

# Time for larger trees of tree samplers, beside that for all other shapes.
SHAPES_OF_TREES_SHARE: Final = 0.4
# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0


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
    remarks = found.remarks if worse is found else replace(found.remarks, do=step_of_a_part(of_trees))
    joined = replace(found, status=worse.status, cause=worse.cause, detail=detail, remarks=remarks)
    return remarked(joined, scope=scope, notes=notes)


def after_larger_trees(subject: SamplerSubject, context: Context) -> LawResult:
    """Say whether the distribution of one call is right after larger trees."""
    calls, known = Calls(subject.code, context.seed, "sampler/shapes/trees"), Known()
    ledger, explained = Ledger(context.budget), subject.facts.explained

    def trace(case: ToyDrafts, _: int, end: float) -> TracedOutcome:
        end = min(end, ledger.due) if ledger.found else end
        law = law_after_all(case, subject, context, known, end)
        return TracedOutcome(dict(enumerate(law.extended().reshape(-1).tolist())))

    experiments = [
        calls.on(
            *(str(case), case.instance, case.drafting),
            trace=partial(trace, case),
            group=str(case),
            allowed=explained(case.instance.draft_length + 1),
        )
        for case in later_sizes(subject.on_trees, context.seed)
    ]
    joint = context.results.get("joint")
    ways = FoundBy.SAMPLED if joint is not None and joint.how is How.SAMPLED else FoundBy.BOTH
    found = find(experiments, context, in_addition(), rest=in_addition(), ledger=ledger, ways=ways)
    traced = [one.experiment.group for one in ledger.found]
    lines = [f"exact output distribution of one call: {'; '.join(traced)}"] if traced else []
    untraced = {group: why for group, why in ledger.untraced.items() if traced}
    lines += [f"sampled, not traced in this time: {'; '.join(untraced)}"] if untraced else []
    notes = [note for note in found.remarks.notes if note.partition(": ")[0] not in untraced]
    return remarked(found, scope=(*lines, *found.remarks.scope[1 if traced else 0 :]), notes=tuple(notes))


def _on_paths(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge the code at every shape of the design, on paths; a tree sampler on chains."""
    is_torch, asked, only = subject.code.array == "torch", context.shapes.dtypes, context.shapes.only
    dtypes = tuple(dtype for dtype in asked if is_torch or dtype != "bfloat16")
    if not dtypes:
        return inconclusive(f"numpy has no rows of type {', '.join(asked)}: --array torch has")
    only = {**subject.facts.only, **only}
    context = replace(context, shapes=replace(context.shapes, dtypes=dtypes, only=only))
    # With one path the arrays of the contract have no axis of paths: code for several may refuse it.
    optional = {"ids": (MAY_REFUSE_IDS,), "num_paths": (1,) if subject.num_paths > 1 else ()}
    calls, taken, notes = CallsAtShapes(subject, context), dict[str, tuple[AxisValue, ...]](), ""
    tried = TriedInTurn(calls.experiment)
    try:
        taken = values_taken(subject, context, tried, optional)
        if taken:
            now, few = time.process_time(), design(**{"dtype": dtypes, **only, **taken})
            until = now + effort.SHAPES_VALUES_SHARE * context.budget
            end = now + context.shape_seconds * (1 - SHAPES_SAMPLED_SHARE)
            tried.trace_all(in_turn(tried, few, subject.drafting, context, until=until, end=end))
    except NoEvidenceError as error:
        # What was traced at other shapes is worth as little.
        tried, taken, notes = TriedInTurn(calls.experiment, tried.not_traced), {}, f"shapes: {error}"
    extent = Extent(design(**{"dtype": dtypes, **only, **taken}), only, optional)
    if wrong := tried.wrong:
        inputs = {"shape": wrong.shape, "seed": wrong.seed}
        found = result_of(tried, extent, context)
        return with_inputs(found, "traced_shape", subject, context, context.rate, inputs)
    sampled = by_samples(subject, context.after_claims(), tried, pace(subject, context))
    found = result_of(tried, extent, context, sampled)
    return remarked(found, notes=(*found.remarks.notes, *filter(None, [notes])))


@part
def traced_shape(
    subject: SamplerSubject, context: Context, rate: float, *, shape: Shape, seed: int
) -> CheckResult:
    """Trace the code at one shape, and compare with the target; a defect is confirmed by samples."""
    del rate
    place = Place(shape, seed, subject.drafting)
    try:
        return said_of(traced_at(CallsAtShapes(subject, context).experiment(place)))
    except (NoEvidenceError, NotTracedError) as error:
        return inconclusive(str(error))


def values_taken(
    subject: SamplerSubject,
    context: Context,
    tried: TriedInTurn[Place],
    optional: Mapping[str, Sequence[AxisValue]],
) -> dict[str, tuple[AxisValue, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be traced.

    Each form of the arrays is tried at one small shape. The code may refuse ``optional`` values with an
    exception.
    """
    joint = context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return {}
    dtypes, paths = context.shapes.dtypes, subject.num_paths
    fewer = tuple(k for k in AXES["num_paths"] if k != paths) if paths > 1 else ()
    forms = {"dtype": dtypes, "ids": AXES["ids"], "layout": AXES["layout"], "num_paths": (paths, *fewer)}
    forms |= {name: values for name, values in context.shapes.only.items() if name in forms}
    usual: dict[str, Any] = {"vocab_size": 5, "draft_length": 3, "num_paths": paths, "dtype": dtypes[0]}
    plain = Shape(**{**usual, **{name: values[0] for name, values in context.shapes.only.items()}})
    taken: dict[str, tuple[AxisValue, ...]] = {}
    for name, values in forms.items():
        taken[name] = ()
        for value in values:
            shape = replace(plain, **{name: value})
            if (error := _error_at(shape, subject, context, tried)) is None:
                taken[name] += (value,)
                continue
            is_raised = isinstance(error, SubjectRaisedError | ContractError)
            if shape == plain and not is_raised:
                return {}
            tried.left_out[f"{name} {value}: {short(error)}"] += 1
            if is_raised and value not in optional.get(name, ()):
                tried.refused[name, value] = short(error)
    if subject.num_paths == 1:
        parameters = parameters_of(subject.code.function)
        taken |= {name: (*values,) for name, values in OPTIONS.items() if name in parameters}
    return {name: values for name, values in taken.items() if values}


def _error_at(
    shape: Shape, subject: SamplerSubject, context: Context, tried: TriedInTurn[Place]
) -> Exception | None:
    """Trace the call at one shape; return what keeps it from being traced.

    It shows whether code can be traced at all, and may take its time. Code that is made for several paths may
    refuse one.
    """
    place, end = Place(shape, context.seed, subject.drafting), time.process_time() + SHAPES_FIRST_SECONDS
    if place in tried.traced:
        return None
    try:
        return tried.trace(place, end)
    except ContractError as error:
        if shape.num_paths == subject.num_paths or shape.num_paths != 1:
            raise
        return error
