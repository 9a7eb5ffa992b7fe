"""A sampler at one shape: what it takes, how it is called and traced there, how a defect is confirmed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import How, NoEvidenceError
from spec_oracle.audit.sampler.confirm import CallsAtShape, confirm_breach, confirm_shape
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.audit.shapes.axes import AXES, OPTIONS, AxisValue, Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.design import Extent, design
from spec_oracle.audit.shapes.judged import JudgedShape, Laws, judge
from spec_oracle.audit.shapes.sampled import TreeCells, types_of
from spec_oracle.audit.shapes.trees import among_others, run_ids, tree_of, wanted_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import Handed, new_generator, parameters_of
from spec_oracle.errors import ImpossibleOutputError
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.exact.errors import NotTracedError
from verifiers import Paths

# Seconds that the first shape may take: it shows whether code can be traced at all.
SHAPES_FIRST_SECONDS: Final = 30.0

_ABOUT_TYPES: Final = TypeError, AttributeError, BufferError
"""What code raises that is handed another kind of array than it takes."""


def extent_of(
    subject: CalledAsSampler, context: Context, taken: Mapping[str, tuple[AxisValue, ...]]
) -> Extent:
    """Return the design of the values that the code takes."""
    only = context.shapes.only
    return Extent(design(**{**only, **taken}), only, _optional(subject, context))


def _optional(subject: CalledAsSampler, context: Context) -> dict[str, tuple[AxisValue, ...]]:
    """Return values that need not be tried: types that do not count, and one path of code for several.

    With one path the arrays of the contract have no axis of paths.
    """
    types = tuple(dtype for dtype in AXES["dtype"] if dtype not in context.shapes.dtypes)
    return {"dtype": types, "num_paths": (1,) if subject.num_paths > 1 else ()}


def values_taken(
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


def laws_at_shapes(subject: SamplerSubject, context: Context) -> Laws:
    """Return what traces the code at a shape, after an ordinary call there.

    Raises `NotTracedError` where traced calls alone raise an error about types.
    """
    rng = context.stream("sampler/shapes/ordinary calls")

    def laws(shape: Shape, drafts: Sequence[Paths], end: float) -> Sequence[ConditionalLaw]:
        code = _code_at(subject, context, shape)
        found = list[ConditionalLaw]()
        try:
            code(_batch_at(context, shape, drafts[0]), code.generator(int(rng.integers(2**31))))
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
    shape = judged.shape
    calls = CallsAtShape(
        _code_at(subject, context, shape),
        tree,
        partial(_batch_at, context, shape),
        shape.request,
        TreeCells(wanted_of(shape, tree)),
        context.stream("sampler/shapes/claimed"),
    )
    explained = subject.facts.explained(shape.draft_length + 1)
    confirm_shape(calls, judged, context, lambda: judge(shape, tree, laws, explained=explained))
