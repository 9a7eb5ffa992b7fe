"""The check `calls`: completions of several calls are distributed as by target-only decoding.

No call remembers or repeats another one: what a generation leaves behind for the next one is judged too, and,
of engines that decode many requests at once, whether batches or calls share their random numbers.
"""

import time
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure, first_that_works
from spec_oracle.audit.engine.patterns import after_patterns
from spec_oracle.audit.engine.rounding import rounding_of
from spec_oracle.audit.engine.sampled import BINS, sampled_longer
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.traced import traced_longer
from spec_oracle.audit.results import CheckResult, How, Status, failed, remarked
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.sampler.dependence import CHAINS, Draw, in_turn, independent
from spec_oracle.contracts import raising
from spec_oracle.contracts.sampler import seed_all

# Share of the budget for completions that are traced and, in what is left of it, for the calls after every
# pattern of acceptance.
ENGINE_CALLS_SHARE: Final = 0.7
# Tokens and number of the completions in which it looks for tokens that depend on each other.
ENGINE_POSITIONS: Final = (8, 12_000)


def calls(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge completions of several calls, traced or sampled, then series of batches, and long completions.

    Of engines that show their calls, the next call is judged after every pattern of accepted lengths.
    """
    seed_all(context.seed)
    cases = subject.cases(context)
    seconds = min(case.code.trial(case.prompt, effort.ENGINE_LEAST_TOKENS) for case in cases)

    rounding = rounding_of(subject, context)
    showing = [] if context.is_lossy(subject) else subject.cases(context, "steps")

    def completions(rate: float) -> CheckResult:
        traced = partial(traced_longer, cases, rounding, replace(context, rate=rate), seconds)
        return first_that_works([traced, partial(sampled_longer, cases, context.after_claims(rate))])

    def longer(rate: float) -> CheckResult:
        started = time.process_time()
        if not showing:
            return completions(rate)
        found = completions(rate / 2)
        if found.status is not Status.PASSED or found.how is not How.PROVEN:
            return found
        left = ENGINE_CALLS_SHARE * context.budget - (time.process_time() - started)
        after = after_patterns(showing, rounding, replace(context, rate=rate / 2), left)
        chosen: CheckResult = found if after.status is Status.PASSED else after
        measured = replace(chosen.measured, draws=found.measured.draws + after.measured.draws)
        scope = (*found.remarks.scope, *after.remarks.scope)
        return replace(remarked(chosen, scope=scope), measured=measured)

    many = subject.cases(context, "start_many")[:1]
    if not many:
        return longer(context.rate)
    return first_failure(
        context.rate,
        lambda rate: independent(equal_batches(many[0], context), CHAINS, rate),
        lambda rate: _independent_positions(many[0], rate, context),
        longer,
    )


def equal_batches(case: Case, context: Context) -> Draw:
    """Return what draws the first calls of batches of equal requests without seed."""
    seed_all(context.seed)

    def emitted(size: int) -> NDArray[np.int64]:
        with raising():
            width = int(case.code.engine.draft_length) + 1
            step = case.code.session(case.prompt, 2 * width, [None] * size).step()
            return np.asarray(step.tokens, np.int64)

    return in_turn(emitted)


def _independent_positions(case: Case, rate: float, context: Context) -> CheckResult:
    """Judge whether any two tokens of a completion are independent, given what came before each.

    Random numbers that a later call repeats make them dependent. Pairs share their completions, and split
    the rate.
    """
    tokens, count = ENGINE_POSITIONS
    rng = context.stream("engine/calls/positions")
    drawn = case.code.completions(case.prompt, tokens, [None] * count)
    found = [case.code.bins(case.prompt, one, rng.random(tokens), BINS, by_rank=False) for one in drawn]
    if any(bins is None for bins in found):
        return failed(f"{case.label}: a completion of {tokens} tokens has probability 0", how=How.SAMPLED)
    bins = np.stack([some for some in found if some is not None])
    uniform = np.full(BINS * BINS, float(BINS) ** -2)

    def pair(first: int, second: int, part: float) -> CheckResult:
        what = f"tokens {first + 1} and {second + 1} of long completions"
        return judge_rounds(what, [uniform], [[bins[:, first] * BINS + bins[:, second]]], alpha=part)

    return first_failure(rate, *(partial(pair, *both) for both in combinations(range(tokens), 2)))
