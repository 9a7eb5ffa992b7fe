"""The check `shapes`: the output distribution at other sizes, number types, memory layouts, distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
traced exactly, and added up; code that cannot be traced is sampled at some of the shapes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np

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
from spec_oracle.audit.sampler.branch_tracing import Watched
from spec_oracle.audit.sampler.confirm import ShapeSample, confirm_breach, confirm_shape, confirmed_claim
from spec_oracle.audit.sampler.large import large
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import pace, too_slow
from spec_oracle.audit.sampler.tracer import law_after, traced_law
from spec_oracle.audit.shapes.axes import AXES, OPTIONS, AxisValue, Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.design import Extent, design
from spec_oracle.audit.shapes.judged import JudgedShape, Laws, judge, one_shape
from spec_oracle.audit.shapes.sampled import TreeCells, batches_at, sampled_at
from spec_oracle.audit.shapes.trees import among_others, run_ids, tree_of, wanted_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SamplerCode
from spec_oracle.contracts.sampler import Handed, new_generator, parameters_of
from spec_oracle.errors import ImpossibleOutputError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.exact.interception import EnumeratedGenerator
from spec_oracle.toy import Instance
from verifiers import Paths

SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
SHAPES_SMALL_SHARE: Final = 0.15  # Share for sizes at which all drafts are tried.
# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0
SHAPES_REQUESTS: Final = 2_000  # Samples at one shape, at least, as long as there are enough for one.
SHAPES_LEAST_SAMPLES: Final = 500  # Samples without which a shape does not count as tried.
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.
# Shapes that are sampled: those of the fewest numbers, which make for the most samples.
SHAPES_MOST_SAMPLED: Final = 12
SHAPES_SAMPLED_VOCABULARY: Final = 1_000  # Tokens up to which code that cannot be traced is sampled there.
SHAPES_LARGE: Final = 4  # Of these, shapes up to the largest.

Place: TypeAlias = tuple[Shape, DraftTree]


def shapes(subject: SamplerSubject, context: Context) -> CheckResult:
    """Trace the code at every shape, then compare with samples; only sample where that fails."""
    if not _types(subject, context.shapes.dtypes):
        return inconclusive(
            f"numpy has no rows of type {', '.join(context.shapes.dtypes)}: --array torch has"
        )
    declared = {**subject.facts.only, **context.shapes.only}
    context = replace(context, shapes=replace(context.shapes, only=declared))
    notes: tuple[str, ...] = ()
    laws = _laws(subject, context)
    covered = Covered(confirm=partial(_confirm, subject, context, laws))
    try:
        wrong, extent = _traced(subject, context, laws, covered)
    except NoEvidenceError as error:
        # What was traced at other shapes is worth as little.
        covered, wrong, notes = Covered(not_traced=covered.not_traced), None, (f"shapes: {error}",)
        extent = _extent(subject, context, {})
    if wrong is not None:
        return with_inputs(wrong, "traced_shape", subject, context, context.rate, covered.wrong)
    found = covered.result(extent, context, _by_samples(subject, context.after_claims(), covered))
    return remarked(found, notes=(*found.remarks.notes, *notes))


def _traced(
    subject: SamplerSubject, context: Context, laws: Laws, covered: Covered
) -> tuple[CheckResult | None, Extent]:
    """Trace the code at the shapes of a design, and after all drafts of small sizes; return a failure.

    Raises `NoEvidenceError` where ordinary samples contradict what was traced.
    """
    seconds = context.shape_seconds * (1 - SHAPES_SAMPLED_SHARE)
    axes = _forms(subject, context, laws, covered)
    extent = _extent(subject, context, axes)
    if axes and not covered.lossy:
        covered.try_design(subject, context, extent.design, laws, (1 - SHAPES_SMALL_SHARE) * seconds)
    if covered.lossy:
        return covered.result(extent, context), extent
    if not axes or context.findings.elsewhere is None:
        return None, extent
    end = time.process_time() + SHAPES_SMALL_SHARE * seconds
    return covered.try_small_sizes(subject, context, end, _small_law(subject, context, end)), extent


def _extent(subject: CalledAsSampler, context: Context, axes: Mapping[str, tuple[AxisValue, ...]]) -> Extent:
    return Extent(design(**{**context.shapes.only, **axes}), context.shapes.only, _optional(subject, context))


def _confirm(
    subject: SamplerSubject, context: Context, laws: Laws, judged: JudgedShape, tree: DraftTree
) -> None:
    """Raise `NoEvidenceError` unless ordinary calls bear out what was traced at a shape."""
    shape = judged.shape
    sample = ShapeSample(
        _code_at(subject, context, shape),
        tree,
        partial(_batch_at, context, shape),
        shape.request,
        TreeCells(wanted_of(shape, tree)),
        context.stream("sampler/shapes/claimed"),
    )
    explained = subject.facts.explained(shape.draft_length + 1)
    confirm_shape(sample, judged, context, lambda: judge(shape, tree, laws, explained=explained))


def _small_law(subject: SamplerSubject, context: Context, end: float) -> Callable[[Instance], EmissionLaw]:
    """Return what traces the code on an instance, and confirms a defect with ordinary samples."""
    assert context.findings.elsewhere is not None
    law_of = partial(context.findings.elsewhere.law_of, end=end)

    def confirmed(instance: Instance) -> EmissionLaw:
        law = law_of(instance)
        if law.total_variation > subject.facts.explained(instance.draft_length + 1):
            confirmed_claim(subject, law, context, context.rate, partial(traced_law, subject.code, instance))
        return law

    return confirmed


@part
def traced_shape(
    subject: SamplerSubject, context: Context, rate: float, *, shape: Shape, seed: int
) -> CheckResult:
    """Trace the code at one shape, and compare with the target; a defect is confirmed by samples."""
    del rate
    laws = _laws(subject, context)
    try:
        return one_shape(subject, laws, shape, seed, partial(_confirm, subject, context, laws))
    except NoEvidenceError as error:
        return inconclusive(str(error))


def _types(subject: SamplerSubject, dtypes: Sequence[str] = AXES["dtype"]) -> tuple[str, ...]:
    """Return the number types that the library of the code has."""
    return tuple(dtype for dtype in dtypes if subject.code.array == "torch" or dtype != "bfloat16")


def _optional(subject: CalledAsSampler, context: Context) -> dict[str, tuple[AxisValue, ...]]:
    """Return values that need not be tried: types that do not count, and one path of code for several.

    With one path the arrays of the contract have no axis of paths.
    """
    types = tuple(dtype for dtype in AXES["dtype"] if dtype not in context.shapes.dtypes)
    return {"dtype": types, "num_paths": (1,) if subject.num_paths > 1 else ()}


def _laws(subject: SamplerSubject, context: Context) -> Laws:
    """Return what traces the code at a shape, and compares the branches that ordinary calls take there."""
    watched = Watched(law_after, context.stream("sampler/shapes/watched"), subject.steps)

    def laws(shape: Shape, drafts: Sequence[Paths], end: float) -> Sequence[ConditionalLaw]:
        code = _code_at(subject, context, shape)
        batches = (_batch_at(context, shape, one) for one in drafts)
        in_full = False if shape.is_brief else None
        try:
            found = watched.laws_after(code, batches, shape.request, run_ids(shape), end, in_full=in_full)
        except ContractError as error:
            confirm_breach(code, error, context)
            raise
        for one, law in zip(drafts, found, strict=True):
            _require_own_length(code, context, shape, one, law)
        return found

    return laws


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

    def another(generator: object) -> object:
        if isinstance(generator, EnumeratedGenerator):
            return EnumeratedGenerator()
        return new_generator(code.array, next(seeds))

    def function(tokens: object, draft: object, target: object, generator: object) -> Any:
        given: dict[str, object] = {name: array.fresh() for name, array in arrays.items()}
        if "generators" in options:
            given["generators"] = {request: another(generator) for request in own}
        return code.function(tokens, draft, target, generator, **given)

    return replace(code, function=function) if options else code


def _forms(
    subject: SamplerSubject, context: Context, laws: Laws, covered: Covered
) -> dict[str, tuple[AxisValue, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be traced."""
    joint = context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return {}
    forms = {"dtype": _types(subject), **{name: AXES[name] for name in ("ids", "layout")}}
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
    if covered.shapes:
        return _sampled(subject, context, covered)
    small = _sampled(subject, replace(context, rate=context.rate / 2), covered)
    if small.status is not Status.PASSED:
        return small
    found, shapes_of = large(subject, context, context.rate / 2)
    covered.sampled += shapes_of
    detail = "; ".join(filter(None, (found.detail, small.detail)))
    measured = replace(found.measured, draws=small.measured.draws + found.measured.draws)
    found = remarked(found, scope=small.remarks.scope + found.remarks.scope)
    return replace(found, detail=detail, measured=measured)


def _sampled(subject: SamplerSubject, context: Context, covered: Covered) -> CheckResult:
    """Sample uninstrumented code at some of the shapes that were traced, or else at some of the design.

    Where ordinary calls branch otherwise than traced ones, only samples say what they come to.
    """
    plain = (one for one in covered.shapes if not one.shape.options)
    trees = [(one.shape, tree_of(one.shape, one.seed, subject.drafting)) for one in plain]
    if not trees:
        sizes = {
            "vocab_size": tuple(size for size in AXES["vocab_size"] if size <= SHAPES_SAMPLED_VOCABULARY),
            "dtype": _types(subject, context.shapes.dtypes)[:1],
            "num_paths": (subject.num_paths,),
        }
        few = design(**{**sizes, **context.shapes.only})
        first = few.shapes[: few.of_values]
        trees = [(shape, tree_of(shape, context.seed, subject.drafting)) for shape in first]
    share = SHAPES_SAMPLED_SHARE if covered.shapes and not covered.unlike else 1.0
    seconds = context.shape_seconds * share
    requests = min(pace(subject, context) * seconds, SHAPES_MOST_REQUESTS)
    if not covered.shapes and requests < SHAPES_REQUESTS:
        raise TooSlowError(too_slow(subject, context, SHAPES_REQUESTS))
    most = SHAPES_MOST_SAMPLED
    trees, not_traced, unlike = (
        sorted(
            (one for one in listed if one[0].dtype in context.shapes.dtypes and not one[0].options),
            key=_numbers,
        )
        for listed in (trees, covered.not_traced, covered.unlike)
    )
    if unlike:
        chosen = _with_new_values(unlike, [one.shape for one in covered.shapes])
    else:
        count = int(min(max(requests // SHAPES_REQUESTS, 1), most))
        small = max(count - SHAPES_LARGE, 1)
        chosen = trees[:small] + _spread(trees[small:], count - small) + _spread(not_traced, most)
    rng = context.stream("sampler/shapes/samples")
    found = sampled_at(
        subject.code,
        chosen,
        rng,
        alpha=context.rate,
        requests=requests,
        seconds=seconds,
        admitted=context.admitted,
    )
    if found.status is Status.PASSED:
        shapes_of = [shape for shape, _ in chosen]
        rounds = zip(shapes_of, batches_at(shapes_of, requests), strict=True)
        least = SHAPES_LEAST_SAMPLES
        enough = (shape for shape, some in rounds if some * effort.SHAPES_ROUNDS >= least)
        covered.sampled = shapes_of if unlike else [*enough]
    return found


def _with_new_values(places: Sequence[Place], known: Sequence[Shape]) -> list[Place]:
    """Return shapes with values of axes that neither known ones nor those before them have, at least one."""
    values = {(axis, getattr(shape, axis)) for shape in known for axis in AXES}
    chosen = []
    for shape, tree in places:
        new = {(axis, getattr(shape, axis)) for axis in AXES}
        if not new <= values:
            chosen.append((shape, tree))
            values |= new
    return chosen or [places[-1]]


def _numbers(place: Place) -> int:
    """Return how many probabilities one request of a shape has."""
    return place[0].numbers // place[0].batch


def _spread(places: Sequence[Place], count: int) -> list[Place]:
    """Return at most ``count`` shapes, the last ones and others evenly before them."""
    steps = np.linspace(len(places) - 1, 0, min(count, len(places)))
    return [places[round(step)] for step in steps.tolist()]
