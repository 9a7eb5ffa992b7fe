"""The check `shapes`: the output distribution at other sizes, number types, memory layouts, distributions.

At every shape of a covering design (`spec_oracle.audit.shapes`) the distribution after each likely draft is
traced exactly, and added up; code that cannot be traced is sampled at some of the shapes. A tree sampler is
also run after every tree of each kind of `spec_oracle.audit.larger_trees`, those with the fewest trees first.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import pace, too_slow
from spec_oracle.audit.experiment import Effort, Experiment, indexed, numbered, sampled
from spec_oracle.audit.failing_inputs import part, with_inputs
from spec_oracle.audit.results import CheckResult, How, NoEvidenceError, Status, inconclusive, remarked
from spec_oracle.audit.sampler.at_shapes import CallsAtShapes
from spec_oracle.audit.sampler.joint import after_larger_trees
from spec_oracle.audit.sampler.scale import large
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.axes import AXES, IDS, OPTIONS, AxisValue, Shape, design
from spec_oracle.audit.shapes.cells import TreeCells
from spec_oracle.audit.shapes.coverage import Extent, result_of, step_of_a_part
from spec_oracle.audit.shapes.places import at_one_place
from spec_oracle.audit.shapes.trees import Place
from spec_oracle.audit.shapes.tried import TriedShapes, short
from spec_oracle.contracts import ContractError, Emissions, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import parameters_of
from spec_oracle.exact.errors import NotTracedError

SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
# Time for larger trees of tree samplers, beside that for all other shapes.
SHAPES_OF_TREES_SHARE: Final = 0.4
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.
# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0
SHAPES_REQUESTS: Final = 2_000  # Samples at one shape, at least, as long as there are enough for one.
SHAPES_LEAST_SAMPLES: Final = 500  # Samples without which a shape does not count as tried.
# Shapes that are sampled: those of the fewest numbers, which make for the most samples.
SHAPES_MOST_SAMPLED: Final = 12
SHAPES_LARGE: Final = 4  # Of these, shapes up to the largest.
SHAPES_ROUNDS: Final = 4  # Looks at the samples.
SHAPES_SAMPLED_VOCABULARY: Final = 1_000  # Tokens up to which code that cannot be traced is sampled there.

_MAY_REFUSE_IDS: Final = "int32"
"""Ids that code may refuse: many operators of torch take indices of int64 only."""

_MOST_NUMBERS: Final = 1_000_000
"""Most probabilities in one call that takes samples."""


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


def _on_paths(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge the code at every shape of the design, on paths; a tree sampler on chains."""
    if not types_of(subject.code, context.shapes.dtypes):
        return inconclusive(
            f"numpy has no rows of type {', '.join(context.shapes.dtypes)}: --array torch has"
        )
    declared = {**subject.facts.only, **context.shapes.only}
    context = replace(context, shapes=replace(context.shapes, only=declared))
    calls, notes = CallsAtShapes(subject, context), tuple[str, ...]()
    tried = TriedShapes(subject.drafting, calls.experiment, calls.confirm)
    try:
        taken = values_taken(subject, context, tried)
        extent = extent_of(subject, context, taken)
        if taken and not tried.wrong:
            now, seconds = time.process_time(), context.shape_seconds * (1 - SHAPES_SAMPLED_SHARE)
            until = now + effort.SHAPES_VALUES_SHARE * context.budget
            tried.trace_design(extent.design, context, until, now + seconds)
    except NoEvidenceError as error:
        # What was traced at other shapes is worth as little.
        not_traced, notes = tried.not_traced, (f"shapes: {error}",)
        tried = TriedShapes(subject.drafting, calls.experiment)
        tried.not_traced += not_traced
        extent = extent_of(subject, context, {})
    if tried.wrong:
        wrong = result_of(tried, extent, context)
        return with_inputs(wrong, "traced_shape", subject, context, context.rate, tried.wrong_inputs)
    found = result_of(tried, extent, context, _by_samples(subject, context.after_claims(), tried))
    return remarked(found, notes=(*found.remarks.notes, *notes))


@part
def traced_shape(
    subject: SamplerSubject, context: Context, rate: float, *, shape: Shape, seed: int
) -> CheckResult:
    """Trace the code at one shape, and compare with the target; a defect is confirmed by samples."""
    del rate
    calls = CallsAtShapes(subject, context)
    try:
        return at_one_place(calls.experiment(Place(shape, seed, subject.drafting)), calls.confirm)
    except (NoEvidenceError, NotTracedError) as error:
        return inconclusive(str(error))


def extent_of(
    subject: SamplerSubject, context: Context, taken: Mapping[str, tuple[AxisValue, ...]]
) -> Extent:
    """Return the design of the values that the code takes."""
    only = context.shapes.only
    dtypes = types_of(subject.code, context.shapes.dtypes)
    return Extent(design(**{"dtype": dtypes, **only, **taken}), only, _optional(subject))


def _optional(subject: SamplerSubject) -> dict[str, tuple[AxisValue, ...]]:
    """Return values that the code may refuse with an exception: some ids, and one path of several.

    With one path the arrays of the contract have no axis of paths.
    """
    return {"ids": (_MAY_REFUSE_IDS,), "num_paths": (1,) if subject.num_paths > 1 else ()}


def types_of(code: SamplerCode, dtypes: Sequence[str]) -> tuple[str, ...]:
    """Return the number types that the library of the code has."""
    return tuple(dtype for dtype in dtypes if code.array == "torch" or dtype != "bfloat16")


def values_taken(
    subject: SamplerSubject, context: Context, tried: TriedShapes
) -> dict[str, tuple[AxisValue, ...]]:
    """Return the axes with the values that the code takes; nothing for code that cannot be traced.

    Each form of the arrays is tried at one small shape.
    """
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
    shape: Shape, subject: SamplerSubject, context: Context, tried: TriedShapes
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


def _by_samples(subject: SamplerSubject, context: Context, tried: TriedShapes) -> CheckResult:
    """Sample code at some shapes; where nothing was traced also at full vocabularies, with half the rate."""
    share = SHAPES_SAMPLED_SHARE if tried.traced else 1.0
    seconds = context.shape_seconds * share
    requests = min(pace(subject, context) * seconds, SHAPES_MOST_REQUESTS)
    if tried.traced:
        return sampled_shapes(subject, context, tried, requests, seconds)
    if requests < SHAPES_REQUESTS:
        raise too_slow(subject, context, SHAPES_REQUESTS, context.shape_share)
    half = replace(context, rate=context.rate / 2)
    small = sampled_shapes(subject, half, tried, requests, seconds)
    if small.status is not Status.PASSED:
        return small
    found, shapes_of = large(subject, context, context.rate / 2)
    tried.sampled += shapes_of
    detail = "; ".join(filter(None, (found.detail, small.detail)))
    measured = replace(found.measured, draws=small.measured.draws + found.measured.draws)
    found = remarked(found, scope=small.remarks.scope + found.remarks.scope)
    return replace(found, detail=detail, measured=measured)


def sampled_shapes(
    subject: SamplerSubject, context: Context, tried: TriedShapes, requests: float, seconds: float
) -> CheckResult:
    """Sample uninstrumented code at some of the shapes that were traced, or else at some of the design.

    About so many ``requests`` are verified, within ``seconds``. Where they have many numbers, few are in a
    call: every shape gets `SHAPES_ROUNDS` calls at least.
    """
    places = {str(place.shape): place for place in _chosen(subject, context, tried, requests)}
    most = int(requests / len(places) / SHAPES_ROUNDS)
    sizes = {
        what: max(1, min(most, _MOST_NUMBERS * place.shape.batch // place.shape.numbers))
        for what, place in places.items()
    }
    rng = context.stream("sampler/shapes/samples")
    each = [_requests(place, subject.code, sizes[what], rng) for what, place in places.items()]
    more = max(requests / sum(sizes.values()) / SHAPES_ROUNDS - 1, 0)
    looks = Effort(math.inf, SHAPES_ROUNDS * most, turns=math.ceil(more * len(places)))
    what = f"completions at {len(places)} input shapes"
    found = sampled(each, replace(context, budget=seconds), looks, what=what)
    if found.status is Status.PASSED:
        least = SHAPES_LEAST_SAMPLES / SHAPES_ROUNDS
        tried.sampled = [place.shape for what, place in places.items() if sizes[what] >= least]
    return found


def _requests(place: Place, code: SamplerCode, size: int, rng: np.random.Generator) -> Experiment:
    """Return the experiment of independent requests of a place, ``size`` in a call; a look is some calls."""
    shape, likely, chances, cells = place.shape, place.batch, place.chances, TreeCells(place.tree)
    handed = replace(code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)

    def emitted() -> Emissions:
        drafts = likely.take(rng.choice(len(chances), size=size, p=chances))
        return handed(drafts, handed.generator(int(rng.integers(2**31))))

    def many(_: int) -> NDArray[np.int64]:
        return np.concatenate([cells.of(emitted(), rng) for _ in range(SHAPES_ROUNDS)])

    unnamed = lambda: replace(indexed(cells.law), outcomes=())  # noqa: E731
    return numbered(str(shape), "a completion", cells.law, many, binned=unnamed)


def _chosen(subject: SamplerSubject, context: Context, tried: TriedShapes, requests: float) -> list[Place]:
    """Return small places that were traced and a few large ones, and some that were not traced.

    Where nothing was traced, they are small ones of a design.
    """
    if not (places := _smallest_first([*tried.traced])):
        small = tuple(size for size in AXES["vocab_size"] if size <= SHAPES_SAMPLED_VOCABULARY)
        dtypes = types_of(subject.code, context.shapes.dtypes)[:1]
        axes = {"vocab_size": small, "dtype": dtypes, "num_paths": (subject.num_paths,)}
        axes["ids"] = _ids_taken(subject, context, tried, dtypes[0])
        few = design(**{**axes, **context.shapes.only})
        first = [Place(shape, context.seed, subject.drafting) for shape in few.shapes[: few.of_values]]
        places = _smallest_first(first)
    count = int(min(max(requests // SHAPES_REQUESTS, 1), SHAPES_MOST_SAMPLED))
    small_ones = max(count - SHAPES_LARGE, 1)
    not_traced = _smallest_first(tried.not_traced)
    large_ones = _spread(places[small_ones:], count - small_ones)
    return [*places[:small_ones], *large_ones, *_spread(not_traced, SHAPES_MOST_SAMPLED)]


def _ids_taken(subject: SamplerSubject, context: Context, tried: TriedShapes, dtype: str) -> tuple[str, ...]:
    """Return the types of ids that code which cannot be traced takes, as an ordinary call with each shows."""
    usual: dict[str, Any] = {"vocab_size": 5, "draft_length": 3, "num_paths": subject.num_paths}
    place = Place(Shape(**usual, dtype=dtype, ids=_MAY_REFUSE_IDS), context.seed, subject.drafting)
    code = replace(subject.code, dtype=dtype, ids=_MAY_REFUSE_IDS)
    try:
        code(place.batch.take(np.array([0])), code.generator(context.seed))
    except SubjectRaisedError as error:
        tried.left_out[f"ids {_MAY_REFUSE_IDS}: {short(error)}"] += 1
        return tuple(ids for ids in IDS if ids != _MAY_REFUSE_IDS)
    return IDS


def _smallest_first(places: Sequence[Place]) -> list[Place]:
    """Return the places without optional arguments, by the size of a request.

    Brief ones come last: with one open position, the bonus maybe, they show little.
    """
    plain = (one for one in places if not one.shape.options)
    return sorted(plain, key=lambda one: (one.shape.is_brief, one.shape.numbers // one.shape.batch))


def _spread(places: Sequence[Place], count: int) -> list[Place]:
    """Return at most ``count`` places, the last ones and others evenly before them."""
    steps = np.linspace(len(places) - 1, 0, min(count, len(places)))
    return [places[round(step)] for step in steps.tolist()]
