"""The check `calls`: the tokens of several calls are distributed as the target's.

No call may remember or repeat another one: completions of several calls, and pairs of calls, show it.
"""

import itertools
import math
import time
from dataclasses import replace
from functools import partial, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.dependence import CHAINS, independent_calls
from spec_oracle.audit.draws import (
    Calls,
    Cells,
    affordable,
    pair_of_completions,
    require_affordable,
    sampled_drafts,
)
from spec_oracle.audit.experiment import Effort, Experiment, numbered, sampled
from spec_oracle.audit.failing_inputs import Part, part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, passed
from spec_oracle.audit.sampler.paired_with_rule import beside_rule, called_by_keys, rows_needed
from spec_oracle.audit.sampler.reference import Keyed, by_keys
from spec_oracle.audit.sampler.subject import SamplerSubject, TakesKeys
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts.sampler import KeyedSampler, in_same_arrays
from spec_oracle.statistics import DEFAULT_MISS
from verifiers import Paths

CALLS_ROUNDS: Final = 6  # Looks at pairs of consecutive calls.
CALLS_REQUESTS: Final = 500  # Pairs of consecutive calls in a round.
CALLS_LEAST_REQUESTS: Final = 100  # The same of slow code.
CALLS_BESIDE_RULE: Final = 38  # Calls of each size that are compared with a rule.
CALLS_TV: Final = 0.1  # TV of completions of several calls that must be detected where noise is keyed.
CALLS_KEYED_REQUESTS: Final = 16  # Requests of a call whose noise is keyed.
CALLS_KEYED_LOOKS: Final = 10_000  # Looks at their completions, within the budget.
# Completions of the rule that judge whether its keyed noise keeps the distribution.
CALLS_RULE_COMPLETIONS: Final = 20_000

TURNS = ("flat", "reversed")
"""Instances whose calls take turns."""

TOKENS: Final = 4
"""Tokens of a completion where noise is keyed: two calls or more."""

DRAFTED: Final = 2
TARGET: Final = np.array([0.7, 0.3])
"""The toy on which reuse of keyed noise shows most per row of an interpreted kernel: two tokens, a drafter
that always proposes the first one, and a target that has it with probability 0.7."""


def calls(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge whether calls are independent: consecutive ones of two instances, equal ones at any distance."""
    if isinstance(subject.randomness, TakesKeys):
        return _own_keys(subject.randomness.engine, context)
    found = _beside_rule(subject, context)
    if found is not None:
        return found
    require_affordable(subject, context, 2 * CALLS_ROUNDS * CALLS_LEAST_REQUESTS)
    requests = affordable(subject, context, effort.DEPENDENCE_SHARE)
    beside_target: Part = partial(consecutive, vocab_size=3, draft_length=1, requests=requests)
    parts: list[Part] = [beside_target, partial(independent_calls, calls=2, requests=requests)]
    if context.is_lossy(subject):  # then the comparison with the target comes last, if at all
        parts = parts[1:] if context.is_declared(subject) else parts[::-1]
    return first_failure(context.rate, *(partial(one, subject, context) for one in parts))


def _beside_rule(subject: SamplerSubject, context: Context) -> CheckResult | None:
    """Compare calls with a rule that has no memory, where one emits the same."""
    toys, rng = panel(3, 1, subject.num_paths, context.seed), context.stream("sampler/calls/beside rule")
    turns = itertools.cycle(toys[name] for name in TURNS)
    sizes = [size for design in CHAINS for size in design.sizes] * CALLS_BESIDE_RULE
    drafts = (sampled_drafts(next(turns), size, rng) for size in sizes)
    what = f"{len(sizes)} calls of up to {max(sizes)} requests, of two models in turn"
    return beside_rule(passed(what, draws=sum(sizes)), subject, context, drafts)


@part
def consecutive(
    subject: CalledAsSampler,
    context: Context,
    rate: float,
    *,
    vocab_size: int,
    draft_length: int,
    requests: float,
) -> CheckResult:
    """Judge whether consecutive calls with one generator, on fresh drafts, are independent.

    Calls take turns between two instances of one shape, as other requests come by in a service: rows that
    were kept from the call before are another model's. The second of two calls gets the arrays of the first
    one, overwritten, as engines use their buffers again.
    """
    toys = panel(vocab_size, draft_length, subject.num_paths, context.seed)
    turns = toys[TURNS[0]], toys[TURNS[1]]
    made = Calls(in_same_arrays(subject.code), context.seed, "sampler/calls/consecutive")

    def pairs(count: int) -> tuple[Cells, Cells]:
        first, second = (made.completions(toy.floats, count) for toy in turns)
        return first, second

    look = int(np.clip(requests / CALLS_ROUNDS / 2, CALLS_LEAST_REQUESTS, CALLS_REQUESTS))
    two = pair_of_completions("completions of two calls", turns, pairs)
    return sampled([two], replace(context, rate=rate), Effort(math.inf, look, turns=CALLS_ROUNDS - 1))


def _own_keys(engine: KeyedSampler, context: Context) -> CheckResult:
    """Judge completions of several calls under the engine's own keying, beside those of its rule.

    A completion keeps its seed, and every call continues where it ends, so that a position that was drafted
    but not reached comes up again with the same noise. Where the rule's completions follow the law, enough
    of the engine's that are the same settle it; else others are sampled, and judged by themselves.
    """
    rng, end = context.stream("sampler/calls/keys"), time.perf_counter() + context.budget
    by_engine, by_rule = called_by_keys(engine), by_keys(engine)
    law = reduce(np.outer, [TARGET] * TOKENS).reshape(-1)

    def on(what: str, verify: Keyed) -> Experiment:
        def completions(count: int) -> NDArray[np.int64]:
            return _completions(verify, rng.integers(2**62, size=(count,)))

        return numbered(what, f"{TOKENS} tokens", law, completions)

    one_look = Effort(math.inf, CALLS_RULE_COMPLETIONS, turns=0)
    is_rule_right = sampled([on("the rule", by_rule)], context, one_look).status is Status.PASSED
    alike = 0
    while is_rule_right and time.perf_counter() < end:
        seeds = rng.integers(2**62, size=CALLS_KEYED_REQUESTS)
        if (_completions(by_engine, seeds) != _completions(by_rule, seeds)).any():
            break
        if (alike := alike + len(seeds)) >= rows_needed(CALLS_TV):
            detail = f"all {alike} completions of {TOKENS} tokens equal the rule's with the same keyed noise"
            power = f"detects a total variation of {CALLS_TV} with power {1 - DEFAULT_MISS}"
            return passed(f"{detail}; {power}", how=How.REPLAYED, alpha=context.rate, draws=alike)
    what = f"{TOKENS} tokens over several calls, noise keyed by seed and position"
    left = replace(context, budget=max(end - time.perf_counter(), 0.0))
    looks = Effort(math.inf, CALLS_KEYED_REQUESTS, turns=CALLS_KEYED_LOOKS)
    return sampled([on(what, by_engine)], left, looks)


def _completions(verify: Keyed, seeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decode the first `TOKENS` tokens of requests with these seeds on the toy; return cells, int [B]."""
    found = np.full((len(seeds), TOKENS + DRAFTED + 1), -1)
    reached = np.zeros(len(seeds), dtype=np.int64)
    while (open_ := np.flatnonzero(reached < TOKENS)).size:
        emitted = verify(_toy_drafts(len(open_)), seeds[open_], reached[open_])
        for column in range(DRAFTED + 1):
            some = emitted.lengths > column
            rows = open_[some]
            found[rows, reached[rows] + column] = emitted.tokens[some, column]
        reached[open_] += emitted.lengths
    return found[:, :TOKENS] @ 2 ** np.arange(TOKENS)[::-1]


def _toy_drafts(batch: int) -> Paths:
    """Return the toy's drafts: token 0 everywhere, with certainty."""
    return Paths(
        np.zeros((batch, 1, DRAFTED), dtype=np.int64),
        np.broadcast_to(np.array([1.0, 0.0]), (batch, 1, DRAFTED, 2)),
        np.broadcast_to(TARGET, (batch, 1, DRAFTED + 1, 2)),
    )
