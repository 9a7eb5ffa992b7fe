"""The check `shapes`: the output distribution at other sizes, number types, memory layouts, distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
traced exactly, and added up; code that cannot be traced is sampled at some of the shapes. A tree sampler is
also run after every tree of each kind of `spec_oracle.audit.larger_trees`, those with the fewest trees first.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import pace, too_slow
from spec_oracle.audit.experiment import (
    Effort,
    Experiment,
    TracedExperiment,
    TracedOutcome,
    confirmed,
    numbered,
)
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.results import (
    CheckResult,
    How,
    NoEvidenceError,
    Status,
    inconclusive,
    remarked,
)
from spec_oracle.audit.sampler.joint import after_larger_trees
from spec_oracle.audit.sampler.scale import large
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import confirm_breach, law_after
from spec_oracle.audit.sampler.unexecuted_lines import recorded
from spec_oracle.audit.shapes.axes import AXES, OPTIONS, AxisValue, Shape
from spec_oracle.audit.shapes.covered import Covered, JudgedShape, Laws, judge, one_shape
from spec_oracle.audit.shapes.design import Extent, design
from spec_oracle.audit.shapes.sampled import (
    SHAPES_REQUESTS,
    TreeCells,
    chances_of,
    sampled_shapes,
    types_of,
)
from spec_oracle.audit.shapes.trees import among_others, run_ids, tree_of, wanted_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, Emissions, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import Handed, new_generator, parameters_of
from spec_oracle.errors import ImpossibleOutputError
from spec_oracle.exact.conditional import CERTAIN, ConditionalLaw
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.exact.errors import NotTracedError
from verifiers import Paths

SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
# Time for larger trees of tree samplers, beside that for all other shapes.
SHAPES_OF_TREES_SHARE: Final = 0.4
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.
# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0
CLAIM_SECONDS: Final = 3.0  # Seconds for samples of a defect at one shape.
CLAIM_PILOT: Final = 20  # First samples at one shape.

_ABOUT_TYPES: Final = TypeError, AttributeError, BufferError
"""What code raises that is handed another kind of array than it takes."""


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


def extent_of(
    subject: CalledAsSampler, context: Context, taken: Mapping[str, tuple[AxisValue, ...]]
) -> Extent:
    """Return the design of the values that the code takes."""
    only = context.shapes.only
    dtypes = types_of(subject.code, context.shapes.dtypes)
    return Extent(design(**{"dtype": dtypes, **only, **taken}), only, _optional(subject))


def _optional(subject: CalledAsSampler) -> dict[str, tuple[AxisValue, ...]]:
    """Return values that need not be tried: one path, of code for several.

    With one path the arrays of the contract have no axis of paths.
    """
    return {"num_paths": (1,) if subject.num_paths > 1 else ()}


def values_taken(
    subject: SamplerSubject, context: Context, laws: Laws, covered: Covered
) -> dict[str, tuple[AxisValue, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be traced."""
    joint = context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return {}
    dtypes, paths = types_of(subject.code, context.shapes.dtypes), subject.num_paths
    fewer = tuple(k for k in AXES["num_paths"] if k != paths) if paths > 1 else ()
    forms = {"dtype": dtypes, "ids": AXES["ids"], "layout": AXES["layout"], "num_paths": (paths, *fewer)}
    forms |= {name: values for name, values in context.shapes.only.items() if name in forms}
    usual: dict[str, Any] = {"vocab_size": 5, "draft_length": 3, "num_paths": paths, "dtype": dtypes[0]}
    plain = Shape(**{**usual, **{name: values[0] for name, values in context.shapes.only.items()}})
    optional = _optional(subject)
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
            if trial.shapes and not trial.left_out:
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


def laws_at_shapes(subject: SamplerSubject, context: Context) -> Laws:
    """Return what traces the code at a shape, after an ordinary call there, which is recorded.

    Raises `NotTracedError` where traced calls alone raise an error about types.
    """
    rng = context.stream("sampler/shapes/ordinary calls")

    def laws(shape: Shape, drafts: Sequence[Paths], end: float) -> Sequence[ConditionalLaw]:
        code = _code_at(subject, context, shape)
        found = list[ConditionalLaw]()
        try:
            ordinary = recorded(code, subject.ran)
            ordinary(_batch_at(context, shape, drafts[0]), code.generator(int(rng.integers(2**31))))
            for one in drafts:
                left = max(end - time.process_time(), 0.0)
                found.append(_traced(code, _batch_at(context, shape, one), shape, left))
        except ContractError as error:
            confirm_breach(code, error, context)
            raise
        for one, law in zip(drafts, found, strict=True):
            _require_own_length(code, context, shape, one, law)
        return found

    return laws


def _traced(code: SamplerCode, batch: Paths, shape: Shape, seconds: float) -> ConditionalLaw:
    in_full = False if shape.is_brief else None
    try:
        return law_after(
            code, batch, shape.request, max_seconds=seconds, looked_at=run_ids(shape), in_full=in_full
        )
    except SubjectRaisedError as error:
        if isinstance(error.__cause__, _ABOUT_TYPES):
            raise NotTracedError(f"only while its random numbers were traced, it {error}") from error
        raise


def _require_own_length(
    code: SamplerCode, context: Context, shape: Shape, drafts: Paths, law: ConditionalLaw
) -> None:
    """Raise `ImpossibleOutputError` where more tokens are accepted than were drafted for the request."""
    masses = {len(prefix): masses.sum() for prefix, masses in law.leaves.items()}
    longest = max(masses)
    if longest <= shape.own_length:
        return
    drafted = f"which has only {shape.own_length} drafted tokens in a batch of mixed draft lengths"
    error = ImpossibleOutputError(f"num_accepted: {longest} of request {shape.request}, {drafted}")
    error.traced = _batch_at(context, shape, drafts), float(masses[longest])
    confirm_breach(code, error, context, lambda found: found.lengths[shape.request] > shape.own_length + 1)
    raise error


def _code_at(subject: SamplerSubject, context: Context, shape: Shape) -> SamplerCode:
    """Return the code as it is called at a shape."""
    code = replace(subject.code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)
    return _with_options(code, shape, context.stream("sampler/shapes/options"))


def _batch_at(context: Context, shape: Shape, drafts: Paths) -> Paths:
    """Return the drafts of a request among the other requests of a shape, always the same ones."""
    return among_others(drafts, shape, context.stream("sampler/shapes/other requests"))


def _with_options(code: SamplerCode, shape: Shape, rng: np.random.Generator) -> SamplerCode:
    """Return the code with the optional arguments of a shape, new ones in every call."""
    options, is_other = shape.options, np.arange(shape.batch) != shape.request
    arrays, own, seeds = {}, [], count(int(rng.integers(2**31)))
    groups = {"others": is_other, "itself": ~is_other, "all": is_other | True, "nobody": is_other & False}
    groups["every second other"] = is_other & (np.cumsum(is_other) % 2 == 1)
    if "draft_lengths" in options:
        lengths = np.full(shape.batch, shape.draft_length)
        if options["draft_lengths"] != "full":
            lengths[is_other] = rng.permutation(np.arange(shape.batch - 1) % (shape.draft_length + 1))
        lengths[shape.request] = shape.own_length
        arrays["draft_lengths"] = Handed(code, lengths)
    if "is_greedy" in options:
        arrays["is_greedy"] = Handed(code, groups[options["is_greedy"]])
    if "generators" in options:
        own = np.flatnonzero(groups[options["generators"]]).tolist()

    def function(tokens: object, draft: object, target: object, generator: object) -> Any:
        given: dict[str, object] = {name: array.fresh() for name, array in arrays.items()}
        if "generators" in options:
            given["generators"] = {request: new_generator(code.array, next(seeds)) for request in own}
        return code.function(tokens, draft, target, generator, **given)

    return replace(code, function=function) if options else code


def confirm_at_shape(
    subject: SamplerSubject, context: Context, laws: Laws, judged: JudgedShape, tree: DraftTree
) -> None:
    """Raise `NoEvidenceError` unless ordinary calls bear out what was traced at a shape."""
    experiment = calls_at_shape(subject, context, judged.shape, tree)
    cells = TreeCells(wanted_of(judged.shape, tree))

    def outcome(found: JudgedShape) -> TracedOutcome:
        assert found.account is not None
        return TracedOutcome(dict(enumerate(cells.law_of(found.account.following).tolist())))

    def traced(_: int, end: float) -> TracedOutcome:
        explained = subject.facts.explained(judged.shape.draft_length + 1)
        again = judge(judged.shape, tree, laws, explained=explained, end=end)
        if not again.is_decided and max(experiment.expected.values()) < CERTAIN:
            raise NotTracedError("no random decision was seen, and the target leaves a choice")
        return TracedOutcome({}) if again.account is None else outcome(again)

    seconds = min(CLAIM_SECONDS, effort.CLAIM_SHARE * context.shape_seconds)
    claim = TracedExperiment(replace(experiment, trace=traced), outcome(judged))
    few = Effort(math.inf, CLAIM_PILOT, pilot=CLAIM_PILOT, most=10 * CLAIM_PILOT)
    of_samples = replace(context, budget=seconds / effort.CLAIM_SHARE)
    confirmed(claim, of_samples, few, due=time.process_time() + seconds)


def calls_at_shape(subject: SamplerSubject, context: Context, shape: Shape, tree: DraftTree) -> Experiment:
    """Return the experiment of ordinary calls at a shape, of which one request is counted by its cells."""
    code, cells = _code_at(subject, context, shape), TreeCells(wanted_of(shape, tree))
    rng, own = context.stream("sampler/shapes/claimed"), slice(shape.request, shape.request + 1)

    def cell(batch: Paths) -> NDArray[np.int64]:
        found = code(batch, code.generator(int(rng.integers(2**31))))
        return cells.of(Emissions(found.tokens[own], found.lengths[own]), rng)

    def many(calls: int) -> NDArray[np.int64]:
        times = rng.multinomial(calls, chances_of(tree)).tolist()
        batches = (_batch_at(context, shape, tree.drafts(paths)) for paths in tree.likely)
        return np.concatenate([cell(one) for one, n in zip(batches, times, strict=True) for _ in range(n)])

    return numbered("calls", "a completion", cells.law, many)
