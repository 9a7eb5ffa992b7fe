"""A sampler at one shape: how it is called there, how that is traced, and how a defect is confirmed."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.sampler.branch_tracing import Watched
from spec_oracle.audit.sampler.confirm import ShapeSample, confirm_breach, confirm_shape
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.judged import JudgedShape, Laws, judge
from spec_oracle.audit.shapes.sampled import TreeCells
from spec_oracle.audit.shapes.trees import among_others, run_ids, wanted_of
from spec_oracle.contracts import ContractError, SamplerCode
from spec_oracle.contracts.sampler import Handed, new_generator
from spec_oracle.errors import ImpossibleOutputError
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.exact.interception import EnumeratedGenerator
from verifiers import Paths


def laws_at_shapes(subject: SamplerSubject, context: Context) -> Laws:
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


def confirm_at_shape(
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
