"""The check `batch`: a request ignores the others of its batch, and shares no randomness with them.

Completions that are generated together must have the distributions that they have alone, and be independent;
and so must a request alone after a batch, which may leave rows in buffers.
Prompts of a batch differ in length where the engine has such, so that padding is judged too. Pairs are traced
where they can be; batches of three and more requests, with seeds and without, are sampled: they have too many
outcomes to be run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.dependence import BATCHES, independent
from spec_oracle.audit.engine.calls import equal_batches
from spec_oracle.audit.engine.cells import crossed, outcomes
from spec_oracle.audit.engine.conversations import later_turns
from spec_oracle.audit.engine.long_texts import long_batches
from spec_oracle.audit.engine.requests import Requests, counted
from spec_oracle.audit.engine.subject import Case, EngineSubject, first_prompts
from spec_oracle.audit.engine.tracer import EngineRequest
from spec_oracle.audit.experiment import Experiment, FoundBy, find, first_failure, sampled
from spec_oracle.audit.results import CheckResult, How, failed, not_asked, passed
from spec_oracle.audit.sampling import OutcomeCells
from spec_oracle.exact.completions import Ids

ENGINE_SIZES: Final = (3, 5, 8)  # Sizes of the larger batches that are sampled, without seeds and with them.
ENGINE_TWO_SHARE: Final = 0.5  # Share of the budget for pairs, where they are sampled.
ENGINE_LARGER_SHARE: Final = 0.3  # Share of the budget that these samples may take.
# TV between traced and uninstrumented requests after a batch that samples should detect; pairs detect less.
AFTER_CONFIRMING_TV: Final = 0.2

TOKENS = effort.ENGINE_FIRST_TOKENS
SMALL_VOCABULARY = 3
UNLIKE_LIMITS: Final = 3  # Limits that requests of a batch have, for engines that take a list of limits.


def batch(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge pairs of completions, traced or sampled, larger batches, and batches of thousands."""
    cases = subject.cases(context, "generate_batch")
    many = subject.cases(context, "start_many")[:1]
    if not cases and not many:
        return not_asked("needs the optional method generate_batch(); see docs/guide/audit-your-engine.md")
    requests = Requests(subject, context, "batch")
    parts: list[Callable[[float], CheckResult]] = []
    for case in many:
        parts += [
            *([partial(_same_in_any_batch, case)] if case.code.is_batch_invariant else []),
            partial(independent, equal_batches(case, context), BATCHES),
            partial(_independent_beside_seeded, case, requests),
        ]
    if cases:
        parts += [
            partial(long_batches, cases, requests.rounding.a_token, context),
            partial(_later_turns, cases, requests.rounding.a_token, context),
            partial(_larger, cases, requests),
            partial(_alone_after, cases, requests),
            partial(_pairs, cases, requests),
        ]
    return first_failure(context.rate, *parts)


def _later_turns(cases: Sequence[Case], tolerance: float, context: Context, rate: float) -> CheckResult:
    return later_turns(cases, tolerance, context, rate, batched=True)


def _pairs(cases: Sequence[Case], requests: Requests, rate: float) -> CheckResult:
    sizes = requests.in_addition(ENGINE_TWO_SHARE)
    context = replace(requests.context, rate=rate)
    return requests.noted(find([*pairs(cases, requests)], context, sizes, doubt=requests.rounding.doubt))


def pairs(cases: Sequence[Case], requests: Requests) -> Iterator[Experiment]:
    """Yield batches of two: a prompt, and the next one of its engine."""
    for case in cases:
        tokens = TOKENS if case.code.vocab_size <= SMALL_VOCABULARY else 1
        yield requests.calls(case, [_requests(case, cases, 2, tokens)])


def _alone_after(cases: Sequence[Case], requests: Requests, rate: float) -> CheckResult:
    """Judge a request alone after a batch of two, of a token each, where it can be traced."""
    context = replace(requests.context, rate=rate)
    calls = [(one, [_requests(one, cases, size, 1) for size in (2, 1)]) for one in first_prompts(cases)]
    asked = [requests.calls(case, some, group="a request after a batch") for case, some in calls]
    sizes = replace(requests.effort(), confirming=AFTER_CONFIRMING_TV)
    found = find(asked, context, sizes, ways=FoundBy.TRACED, doubt=requests.rounding.doubt)
    return found if found.how else passed("")


def _larger(cases: Sequence[Case], requests: Requests, rate: float) -> CheckResult:
    context = replace(requests.context, rate=rate)
    some = replace(requests.in_addition(ENGINE_LARGER_SHARE), screens_all=True)
    return sampled([*larger(cases, requests)], context, some)


def larger(cases: Sequence[Case], requests: Requests) -> Iterator[Experiment]:
    """Yield larger batches of each engine, whose last request is like the first one."""
    for case in first_prompts(cases):
        for size in ENGINE_SIZES:
            for seeded in (False, True):
                some = _requests(case, cases, size - 1, TOKENS, seeded=seeded)
                yield _beside_last(requests, case, [*some, some[0]])


def _beside_last(requests: Requests, case: Case, every: Sequence[EngineRequest]) -> Experiment:
    """Return the experiment of the last completion of a batch and another one, each of them as often."""
    whole, rng = requests.calls(case, [every]), requests.rng
    *others, last = (outcomes(case.code, one.prompt, one.tokens, rng) for one in every)
    kinds = [crossed([kind, last]) for kind in others]
    starts = np.cumsum([0, *(len(kind.law) for kind in kinds[:-1])])

    def many(count: int) -> list[tuple[int, Ids, Ids]]:
        places = rng.integers(len(others), size=count).tolist()
        return [(place, one[place], one[-1]) for place, one in zip(places, whole.many(count), strict=True)]

    def of(found: Sequence[tuple[int, Ids, Ids]]) -> Integers:
        places, cells = np.array([place for place, *_ in found]), np.zeros(len(found), np.int64)
        for place, kind in enumerate(kinds):
            here = np.flatnonzero(places == place)
            cells[here] = starts[place] + kind.of([found[number][1:] for number in here.tolist()])
        return cells

    cells, tokens = OutcomeCells(np.concatenate([kind.law for kind in kinds]) / len(kinds), of), 2 * TOKENS
    return replace(
        whole,
        size=counted(tokens, "token"),
        many=many,
        trace=None,
        binned=lambda: cells,
        allowed=tokens * requests.rounding.a_token,
        doubtful=tokens * requests.rounding.unsure,
    )


def _requests(
    case: Case, cases: Sequence[Case], size: int, tokens: int, *, seeded: bool = False
) -> list[EngineRequest]:
    """Return a batch: the prompt of the case, and the next ones of its engine.

    Where each request may have a limit of its own, it is that of the first one, and one or two tokens more.
    """
    own = [other.prompt for other in cases if other.name == case.name]
    first, unlike = own.index(case.prompt), UNLIKE_LIMITS if case.code.takes_limits else 1
    return [
        EngineRequest(own[(first + place) % len(own)], tokens + place % unlike, seeded)
        for place in range(size)
    ]


def _same_in_any_batch(case: Case, rate: float) -> CheckResult:
    """Judge whether seeded requests get the same completions alone and in batches of all kinds."""
    del rate
    seeds, tokens = list(range(100, 116)), effort.ENGINE_SAMPLED_TOKENS

    def completions(order: Sequence[int | None]) -> dict[int, Ids]:
        found = zip(order, case.code.completions(case.prompt, tokens, order), strict=True)
        return {seed: completion for seed, completion in found if seed is not None}

    alone = {seed: completion for one in seeds for seed, completion in completions([one]).items()}
    batches: dict[str, Sequence[int | None]] = {
        "together": seeds,
        "in another order": seeds[::-1],
        "in a batch of odd size": seeds[:5],
        "beside requests without seed": [seed for one in seeds for seed in (one, None)],
    }
    for name, order in batches.items():
        moved = [seed for seed, completion in completions(order).items() if alone[seed] != completion]
        if moved:
            return failed(f"requests with seeds {moved} have other completions {name}", how=How.SAMPLED)
    return passed(f"{len(seeds)} seeded requests have the same completions in any batch", how=How.SAMPLED)


def _independent_beside_seeded(case: Case, requests: Requests, rate: float) -> CheckResult:
    """Pair neighbouring requests without seed, in batches where every third request has one."""
    kind = outcomes(case.code, case.prompt, TOKENS, requests.rng)

    def many(count: int) -> list[tuple[Ids, Ids]]:
        fresh = requests.rng.integers(2**31, size=3 * count).tolist()
        seeds = [None if number % 3 else seed for number, seed in enumerate(fresh)]
        drawn = case.code.completions(case.prompt, TOKENS, seeds)
        return list(zip(drawn[1::3], drawn[2::3], strict=True))

    what, size = "pairs of requests without seed, beside seeded ones", f"2 x {TOKENS} tokens"
    two = Experiment(what, size, dict, many, binned=lambda: crossed([kind, kind]))
    sizes = requests.in_addition(ENGINE_LARGER_SHARE)
    return sampled([two], replace(requests.context, rate=rate), sizes)
