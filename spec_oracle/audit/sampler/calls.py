"""The check `calls`: the tokens of several calls are distributed as the target's.

No call may remember or repeat another one: completions of several calls, and pairs of calls, show it.
"""

import itertools
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.dependence import CHAINS, independent_calls
from spec_oracle.audit.draws import (
    Calls,
    affordable,
    at_looks,
    pair_of_completions,
    require_affordable,
    sampled_drafts,
)
from spec_oracle.audit.experiment import first_failure
from spec_oracle.audit.failing_inputs import Part, part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, Pair, passed
from spec_oracle.audit.sampler.keyed_noise import over_several_calls
from spec_oracle.audit.sampler.paired_with_rule import beside_rule
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts.sampler import KeyedSampler, in_same_arrays

CALLS_ROUNDS: Final = 6  # Looks at pairs of consecutive calls.
CALLS_REQUESTS: Final = 500  # Pairs of consecutive calls in a round.
CALLS_LEAST_REQUESTS: Final = 100  # The same of slow code.
CALLS_BESIDE_RULE: Final = 38  # Calls of each size that are compared with a rule.

TURNS = ("flat", "reversed")
"""Instances whose calls take turns."""


def calls(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge whether calls are independent: consecutive ones of two instances, equal ones at any distance."""
    if isinstance(subject.randomness, KeyedSampler):
        return over_several_calls(subject.randomness, context)
    pair = context.findings.pair
    if pair and (found := _beside_rule(pair, subject, context)):
        return found
    require_affordable(subject, context, 2 * CALLS_ROUNDS * CALLS_LEAST_REQUESTS)
    requests = affordable(subject, context, effort.DEPENDENCE_SHARE)
    beside_target: Part = partial(consecutive, vocab_size=3, draft_length=1, requests=requests)
    parts: list[Part] = [beside_target, partial(independent_calls, calls=2, requests=requests)]
    if context.is_lossy(subject):  # then the comparison with the target comes last, if at all
        parts = parts[1:] if context.is_declared(subject) else parts[::-1]
    return first_failure(context.rate, *(partial(one, subject, context) for one in parts))


def _beside_rule(pair: Pair, subject: SamplerSubject, context: Context) -> CheckResult | None:
    """Compare calls with a rule that has no memory, where one emits the same."""
    toys, rng = panel(3, 1, subject.num_paths, context.seed), context.stream("sampler/calls/beside rule")
    turns = itertools.cycle(toys[name] for name in TURNS)
    sizes = [size for design in CHAINS for size in design.sizes] * CALLS_BESIDE_RULE
    drafts = (sampled_drafts(next(turns), size, rng) for size in sizes)
    what = f"{len(sizes)} calls of up to {max(sizes)} requests, of two models in turn"
    return beside_rule(passed(what, draws=sum(sizes)), pair, subject, context, drafts)


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

    def pairs(count: int) -> tuple[Integers, Integers]:
        first, second = (made.completions(toy.floats, count) for toy in turns)
        return first, second

    look = int(np.clip(requests / CALLS_ROUNDS / 2, CALLS_LEAST_REQUESTS, CALLS_REQUESTS))
    two = pair_of_completions("completions of two calls", turns, pairs)
    return at_looks(two, context, rate, look, CALLS_ROUNDS)
