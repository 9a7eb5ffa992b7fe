"""Calls of a sampler at a shape: how they are made, how they are traced, and how samples confirm a defect."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Experiment, TracedExperiment, confirmed
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import confirm_breach, law_after
from spec_oracle.audit.sampler.unexecuted_lines import recording
from spec_oracle.audit.sampling import Effort
from spec_oracle.audit.shapes.cells import TreeCells, chances_of
from spec_oracle.audit.shapes.places import experiment_at
from spec_oracle.audit.shapes.trees import EASY, Place, Shape, ids_of_interest, special_ids
from spec_oracle.contracts import ContractError, Emissions, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import Handed, new_generator
from spec_oracle.errors import ImpossibleOutputError
from spec_oracle.exact.draft_tree import ConditionalLaw
from spec_oracle.exact.errors import NotTracedError
from verifiers import Paths

CLAIM_SECONDS: Final = 3.0  # Seconds for samples of a defect at one shape.
CLAIM_PILOT: Final = 20  # First samples at one shape.

_ABOUT_TYPES: Final = TypeError, AttributeError, BufferError
"""Errors of code that gets arrays of a library or type that it does not take."""

MAY_REFUSE_IDS: Final = "int32"
"""Ids that code may refuse: many operators of torch take indices of int64 only."""


class CallsAtShapes:
    """Calls of a sampler at shapes: one request is looked at, the others of its batch are always the same."""

    def __init__(self, subject: SamplerSubject, context: Context) -> None:
        self.subject, self.context = subject, context
        self._ordinary = context.stream("sampler/shapes/ordinary calls")

    def experiment(self, place: Place) -> Experiment:
        """Return the experiment of one call at a place; a defect is confirmed as soon as it is traced."""
        code, rng = self._code(place.shape), self.context.stream("sampler/shapes/claimed")
        many = partial(self._cells, place, code, rng)
        return experiment_at(place, self.laws, self.subject.facts, many, self._confirm)

    def laws(self, place: Place, end: float) -> Sequence[ConditionalLaw]:
        """Trace the call after each likely draft, after an ordinary call, which is recorded.

        Raises `NotTracedError` where traced calls alone raise an error about types, and
        `ImpossibleOutputError` where more tokens are accepted than were drafted for the request.
        """
        shape, code, found = place.shape, self._code(place.shape), list[ConditionalLaw]()
        how: dict[str, Any] = {"looked_at": run_ids(shape), "in_full": False if shape.is_brief else None}
        try:
            for paths in place.tree.likely:
                batch = self._batch(shape, place.tree.drafts(paths))
                if not found:
                    seed = int(self._ordinary.integers(2**31))
                    with recording(self.subject.ran):
                        code(batch, code.generator(seed))
                how["max_seconds"] = max(end - time.process_time(), 0.0)
                try:
                    law = law_after(code, batch, shape.request, **how)
                except SubjectRaisedError as error:
                    if isinstance(error.__cause__, _ABOUT_TYPES):
                        only = f"only while its random numbers were traced, it {error}"
                        raise NotTracedError(only) from error
                    raise
                if max(map(len, law.leaves)) > shape.own_length:
                    raise _longer_than_drafted(shape, batch, law)
                found.append(law)
        except ContractError as error:
            is_breach = lambda emitted: emitted.lengths[shape.request] > shape.own_length + 1  # noqa: E731
            confirm_breach(code, error, self.context, is_breach)
            raise
        return found

    def _confirm(self, found: TracedExperiment) -> None:
        """Confirm a defect by ordinary calls at its shape.

        Raises `NoEvidenceError` where they contradict it, `NoDecisionError` where they are too few, and no
        random decision was seen.
        """
        seconds = min(CLAIM_SECONDS, effort.CLAIM_SHARE * self.context.shape_seconds)
        few = Effort(math.inf, CLAIM_PILOT, pilot=CLAIM_PILOT, most=10 * CLAIM_PILOT)
        of_samples = replace(self.context, budget=seconds / effort.CLAIM_SHARE)
        confirmed(found, of_samples, few, due=time.process_time() + seconds)

    def _cells(self, place: Place, code: SamplerCode, rng: np.random.Generator, calls: int) -> Integers:
        """Make so many ordinary calls; return the cell of the completion of the request in each.

        The ``code`` is the same in all: it makes new generators of requests in every call.
        """
        shape, tree, cells = place.shape, place.tree, TreeCells(place.wanted)
        own = slice(shape.request, shape.request + 1)

        def cell(batch: Paths) -> Integers:
            found = code(batch, code.generator(int(rng.integers(2**31))))
            return cells.of(Emissions(found.tokens[own], found.lengths[own]), rng)

        times = rng.multinomial(calls, chances_of(tree)).tolist()
        batches = (self._batch(shape, tree.drafts(paths)) for paths in tree.likely)
        return np.concatenate([cell(one) for one, n in zip(batches, times, strict=True) for _ in range(n)])

    def _code(self, shape: Shape) -> SamplerCode:
        """Return the code as it is called at a shape."""
        own = self.subject.code
        code = replace(own, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)
        return _with_options(code, shape, self.context.stream("sampler/shapes/options"))

    def _batch(self, shape: Shape, drafts: Paths) -> Paths:
        """Return the drafts of the request among the other requests of a shape."""
        return among_others(drafts, shape, self.context.stream("sampler/shapes/other requests"))


def _longer_than_drafted(shape: Shape, batch: Paths, law: ConditionalLaw) -> ImpossibleOutputError:
    """Return the error of more accepted tokens than were drafted for the request."""
    masses = {len(prefix): masses.sum() for prefix, masses in law.leaves.items()}
    longest = max(masses)
    drafted = f"which has only {shape.own_length} drafted tokens in a batch of mixed draft lengths"
    error = ImpossibleOutputError(f"num_accepted: {longest} of request {shape.request}, {drafted}")
    error.traced = batch, float(masses[longest])
    return error


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
            given["generators"] = {
                request: new_generator(code.array, next(seeds), code.device) for request in own
            }
        return code.function(tokens, draft, target, generator, **given)

    return replace(code, function=function) if options else code


def among_others(drafts: Paths, shape: Shape, rng: np.random.Generator) -> Paths:
    """Return the batch of a shape with this request at its place.

    The others have one-hot targets, other ones at every position of every request: they cost no branches, and
    code that reads one of them emits what is impossible. Of a single path the draft has each of these tokens
    with probability 1/2, so that code which adds a little to it still decides nothing. So are the rows after
    the end of a draft that is shorter.
    """
    own = drafts.draft_length
    if shape.batch == 1 and own == shape.draft_length:
        return drafts
    ids = ids_of_interest(shape.vocab_size)
    size = (shape.batch, 1, shape.draft_length + 1)
    is_of_interest = rng.random(size) < 0.5
    certain = np.where(is_of_interest, rng.choice(ids, size), rng.integers(shape.vocab_size, size=size))
    target = np.zeros((*size, shape.vocab_size))
    np.put_along_axis(target, certain[..., None], 1.0, axis=-1)
    draft = target[:, :, :-1].copy()
    if shape.num_paths == 1:
        others = (certain + rng.integers(1, shape.vocab_size, size=size)) % shape.vocab_size
        draft /= 2
        np.put_along_axis(draft, others[..., :-1, None], 0.5, axis=-1)
    arrays = (certain[..., :-1], draft, target)
    batch = tuple(np.repeat(array, shape.num_paths, axis=1) for array in arrays)
    for array, given in zip(batch, (drafts.tokens, drafts.draft_probs, drafts.target_probs), strict=True):
        array[shape.request, :, : given.shape[2]] = given[0]
    return Paths(*batch)


def run_ids(shape: Shape) -> list[int]:
    """Return ids that are always run where the rows are about ids of special tokens: of many, a few."""
    ids = special_ids(shape.vocab_size).tolist() if shape.kind == "special" else []
    return ids[2:3] + ids[-2:] if shape.is_brief or shape.work > EASY else ids
