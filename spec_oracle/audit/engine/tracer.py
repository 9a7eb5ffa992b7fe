"""The exact distribution of what an engine returns, by running every outcome of every random number.

A run in which no random decision was seen shows nothing where the target leaves a choice: the engine's random
numbers are out of sight then.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from spec_oracle.audit.experiment import TracedOutcome
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.contracts import ContractError, SubjectRaisedError, raising
from spec_oracle.contracts.engine import EngineCode, as_list, copy_of
from spec_oracle.contracts.speculation import Speculation, speculation_seen
from spec_oracle.exact.completions import Ids, summed
from spec_oracle.exact.interception import (
    ASKED,
    NotTracedError,
    OwnSeeds,
    UnrepeatableError,
    enumerate_calls,
    guarded,
    outcomes,
)
from spec_oracle.places import raised_at

SEEDS = (0, 1, 2**31 - 1, 2)
"""Seeds of requests that are traced, by turns: what they seed is traced as well."""


@dataclass(frozen=True)
class Asked:
    """A call of an engine and its outcome, ``label(call(engine, seed))``; ``seed()`` returns a seed.

    ``fresh``: of a copy that has generated nothing, every time. ``rng`` makes the seeds of ordinary runs.
    """

    code: EngineCode
    call: Callable[[Any, Callable[[], int]], object]
    label: Callable[[Any], Any]
    rng: np.random.Generator
    fresh: bool = False
    method: str = "generate"

    def once(self, seed: Callable[[], int]) -> tuple[Any, Speculation]:
        """Call once; return what the engine returned, and what was seen of its drafts."""
        engine = copy_of(self.code.unused) if self.fresh else self.code.engine
        if engine is None:
            raise NotTracedError("it changes between generations and cannot be copied")
        try:
            with speculation_seen(engine) as seen, raising():
                returned = self.call(engine, seed)
        except BaseException:
            self.code.abandon(engine)
            raise
        return returned, seen()

    def many(self, count: int, seeds: Callable[[], Iterator[int]] | None = None) -> list[Any]:
        """Return the outcomes of ``count`` uninstrumented calls, with fresh seeds or those of ``seeds``."""
        found = []
        for _ in range(count):
            some = iter(lambda: int(self.rng.integers(2**31)), None) if seeds is None else seeds()
            returned, seen = self.once(some.__next__)
            self.code.drafts.seen |= seen
            found.append(self.label(returned))
        return found


class EngineRequest(NamedTuple):
    """A request for a completion of at most ``tokens`` tokens after a prompt, with a seed or without."""

    prompt: Ids
    tokens: int
    seeded: bool = False


def asked_of(
    code: EngineCode,
    calls: Sequence[Sequence[EngineRequest]],
    method: str = "generate",
    rng: np.random.Generator | None = None,
) -> Asked:
    """Return the call that makes these requests; its outcome is a completion, or a tuple of several."""

    def call(engine: Any, seed: Callable[[], int]) -> list[list[object]]:
        found: list[list[object]] = []
        for requests in calls:
            if len(requests) == 1:
                (one,) = requests
                keywords = {"seed": seed()} if one.seeded else {}
                found.append(as_list(getattr(engine, method)(list(one.prompt), one.tokens, **keywords)))
                continue
            seeds = [seed() if one.seeded else None for one in requests]
            found += generated_together(code, requests, seeds, engine)
        return found

    every = [request for requests in calls for request in requests]

    def label(found: list[list[Any]]) -> Any:
        checked = tuple(
            code.checked(one, request.tokens, method) for one, request in zip(found, every, strict=True)
        )
        return checked[0] if len(checked) == 1 else checked

    return Asked(code, call, label, np.random.default_rng(0) if rng is None else rng, method=method)


def generated_together(
    code: EngineCode, requests: Sequence[EngineRequest], seeds: Sequence[int | None], engine: Any = None
) -> list[list[Any]]:
    """Return what ``engine``, that of ``code`` or a copy of it, generates for a batch.

    Requests have limits of their own only if the engine takes a list of them. Raises `ContractError` for
    what cannot be a batch.
    """
    engine = code.engine if engine is None else engine
    limits: Any = [one.tokens for one in requests] if code.takes_limits else requests[0].tokens
    prompts = [list(one.prompt) for one in requests]
    returned = as_list(engine.generate_batch(prompts, limits, list(seeds)))
    if len(returned) != len(prompts):
        raise ContractError(f"generate_batch returned {len(returned)} completions for {len(prompts)} prompts")
    return [as_list(completion) for completion in returned]


def completions_of(code: EngineCode, prompt: Ids, tokens: int, method: str = "generate") -> Asked:
    """Return the call for one completion of a request without seed."""
    return asked_of(code, [[EngineRequest(prompt, tokens)]], method)


def traced(asked: Asked, most_runs: int, end: float = math.inf, first_seed: int = 0) -> TracedOutcome:
    """Return the distribution of the outcome; of fresh copies if a generation changes the next ones.

    ``end`` in seconds of `time.process_time`; seeds are those of `SEEDS`, in turn. Raises `NoEvidenceError`
    where the law would not be exact by then, or the engine raises while it is traced; `ContractError` for
    what cannot be a completion.
    """
    attempt = partial(_of_some_copy, asked, most_runs, end, first_seed)
    try:
        return _with_own_seeds(asked.code.own_seeds, attempt)
    except (SubjectRaisedError, NotTracedError) as error:
        raised = "with traced ones it " * isinstance(error, SubjectRaisedError)
        place = raised_at(error)
        at = f" (at {place})" * bool(place and place not in str(error))
        why = f"could not trace the random numbers: {raised}{error}{at}; sampled instead"
        raise NoEvidenceError(why) from None


def _with_own_seeds(own: OwnSeeds, attempt: Callable[[], TracedOutcome]) -> TracedOutcome:
    """Make an attempt at tracing; where the first one fails, another in which own seeds are kept."""
    try:
        return attempt()
    except (SubjectRaisedError, NotTracedError):
        if own.was_tried or not own.seen:
            raise
        own.was_tried = own.are_kept = True
        with suppress(SubjectRaisedError, NotTracedError):
            return attempt()
        own.are_kept = False
        raise


def _of_some_copy(asked: Asked, most_runs: int, end: float, first_seed: int) -> TracedOutcome:
    """Trace the engine, or copies of it where a generation changes the next ones."""
    try:
        return _traced(asked, most_runs, end, first_seed)
    except UnrepeatableError:
        if asked.code.unused is None or asked.fresh:
            raise
    found = _traced(replace(asked, fresh=True), most_runs, end, first_seed)
    return replace(found, remark="; a generation changes the next ones")


def _traced(asked: Asked, most_runs: int, end: float, first_seed: int) -> TracedOutcome:
    own = asked.code.own_seeds

    def run() -> tuple[object, Speculation]:
        return asked.once(seeds_from(first_seed, own).__next__)

    with raising(), own.watched():
        left = end - time.process_time()
        branches = enumerate_calls(run, max_branches=most_runs, max_seconds=left, leave_open=True)
    found = [(mass, *result) for branch in branches for mass, result, _ in outcomes(branch)]
    law = summed((asked.label(returned), mass) for mass, returned, _ in found)
    asked.code.drafts.seen |= reduce(or_, (seen for *_, seen in found))
    many = asked.many if asked.fresh else None
    return TracedOutcome(law, len(branches), len(found) > 1, many=many, guarded=guarded(branches))


def seeds_from(first: int, own: OwnSeeds) -> Iterator[int]:
    """Yield seeds that differ, from that number of `SEEDS` on; where own seeds are kept, of `ASKED`."""
    if own.are_kept:
        yield from ASKED[first:]
        return
    yield from (SEEDS[(first + number) % len(SEEDS)] for number in range(len(SEEDS)))
    yield from range(1000, 2**31)
