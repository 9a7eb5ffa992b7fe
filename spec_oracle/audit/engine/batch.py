"""The check `batch`: a request ignores the others of its batch, and shares no randomness with them.

Completions that are generated together must have the distributions that they have alone, and be independent.
Prompts of a batch differ in length where the engine has such, so that padding is judged too. Batches of three
and more requests, with seeds and without, are sampled: they have too many outcomes to be run.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure, first_that_works
from spec_oracle.audit.engine.calls import equal_batches
from spec_oracle.audit.engine.confirm import confirmed_claim
from spec_oracle.audit.engine.exact_comparison import Asked, CompletionLaws, traced
from spec_oracle.audit.engine.judged import judged, worst_of
from spec_oracle.audit.engine.long_texts import long_batches
from spec_oracle.audit.engine.rounding import Rounding, rounding_of
from spec_oracle.audit.engine.sampled import generated_together, outcomes
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed, remarked
from spec_oracle.audit.rounds import judge_process, judge_rounds, lower_bound
from spec_oracle.audit.sampler.dependence import BATCHES, independent
from spec_oracle.contracts import raising
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import Ids, product
from spec_oracle.statistics import EProcess

ENGINE_BATCHES: Final = 60  # Batches of two completions a look, over all prompts.

TOKENS = 2
SMALL_VOCABULARY = 3


def batch(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge pairs of completions, traced or sampled, and large batches of engines that decode many."""
    pairs = subject.cases(context, "generate_batch")
    many = subject.cases(context, "start_many")[:1]
    if not pairs and not many:
        return not_asked("needs the optional method generate_batch(); see docs/audit-your-engine.md")

    rounding = rounding_of(subject, context)

    def together(rate: float) -> CheckResult:
        traced_pairs = partial(_traced, pairs, rounding, replace(context, rate=rate))
        return first_that_works([traced_pairs, partial(_sampled, pairs, context.after_claims(rate))])

    parts: list[Callable[[float], CheckResult]] = []
    for case in many:
        parts += [
            partial(_same_in_any_batch, case),
            partial(independent, equal_batches(case, context), BATCHES),
            partial(_independent_beside_seeded, case, context),
        ]
    if pairs:
        long = partial(long_batches, pairs, rounding.a_token, context)
        parts += [partial(larger_batches, pairs, context), long, together]
    return first_failure(context.rate, *parts)


def _traced(cases: Sequence[Case], rounding: Rounding, context: Context) -> CheckResult:
    """Find the law of two completions generated together; raises `NoEvidenceError` where it is not exact."""
    found, end = [], time.process_time() + context.budget
    for case in cases:
        code, prompts = case.code, _prompts(case, cases)
        tokens = TOKENS if code.vocab_size <= SMALL_VOCABULARY else 1
        law = traced(_pair_of(code, prompts, tokens), effort.ENGINE_RUNS, end)
        expected = product([code.law(prompt, tokens) for prompt in prompts])
        found.append(CompletionLaws(case, len(prompts) * tokens, law, expected))
    result = judged(found, rounding)
    if result.status is Status.FAILED:
        line = confirmed_claim(worst_of(found), context, rounding)
        result = remarked(result, scope=(line,))
    return result


def _pair_of(code: EngineCode, prompts: Sequence[Ids], tokens: int) -> Asked:
    """Return what asks for completions that are generated together."""
    return Asked(
        code,
        lambda engine, _: generated_together(engine, prompts, tokens, [None] * len(prompts)),
        lambda returned: tuple(code.checked(one, tokens, "generate_batch") for one in returned),
    )


def _sampled(cases: Sequence[Case], context: Context) -> CheckResult:
    """Judge pairs of completions generated together by samples."""
    rng = context.stream("engine/batch/pairs")
    seed_all(context.seed)
    batches = [_prompts(case, cases) for case in cases]
    kinds = [
        [outcomes(case.code, prompt, TOKENS, rng) for prompt in prompts]
        for case, prompts in zip(cases, batches, strict=True)
    ]

    def pairs(number: int) -> NDArray[np.int64]:
        asked, (first, second) = _pair_of(cases[number].code, batches[number], TOKENS), kinds[number]
        drawn = []
        for _ in range(ENGINE_BATCHES // len(cases) + 1):
            one, other = asked.sampled(rng)
            drawn.append(first.outcome(one) * len(second.law) + second.outcome(other))
        return np.array(drawn)

    rounds = ([pairs(number) for number in range(len(cases))] for _ in range(effort.ENGINE_ROUNDS))
    laws = [np.outer(first.law, second.law).reshape(-1) for first, second in kinds]
    return judge_rounds(
        "completions generated together", laws, rounds, alpha=context.rate, admitted=context.admitted
    )


def _prompts(case: Case, cases: Sequence[Case]) -> list[Ids]:
    """Return a batch of two: the prompt of the case, and the next one of its engine."""
    own = [other.prompt for other in cases if other.name == case.name]
    return [case.prompt, own[(own.index(case.prompt) + 1) % len(own)]]


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


def _independent_beside_seeded(case: Case, context: Context, rate: float) -> CheckResult:
    """Pair neighbouring requests without seed, in batches where every third request has one."""
    rng = context.stream("engine/batch/seeded")
    kind = outcomes(case.code, case.prompt, TOKENS, rng)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(effort.ENGINE_ROUNDS):
            fresh = rng.integers(2**31, size=effort.ENGINE_MANY // 2).tolist()
            seeds = [None if number % 3 else seed for number, seed in enumerate(fresh)]
            drawn = case.code.completions(case.prompt, TOKENS, seeds)
            first, second = drawn[1::3], drawn[2::3]
            yield [kind.pairs(first[: len(second)], second)]

    return judge_rounds(
        "pairs of requests without seed", [kind.law_of_pairs], rounds(), alpha=rate, admitted=context.admitted
    )


# Sizes of the larger batches of which `batch` takes samples, without seeds and with them.
ENGINE_LARGER_BATCHES: Final = (3, 5, 8)
ENGINE_LARGER_LOOK: Final = 25  # Batches of each of these sizes a look.
ENGINE_LARGER_SHARE: Final = 0.5  # Share of the budget that these samples may take.

LARGER_TOKENS = effort.ENGINE_FIRST_TOKENS


def larger_batches(cases: Sequence[Case], context: Context, rate: float) -> CheckResult:
    """Judge batches of every size, half of them with seeds; each half and size has its part of the rate."""
    seed_all(context.seed)
    sizes, names = ENGINE_LARGER_BATCHES, list(dict.fromkeys(case.name for case in cases))
    own = [[case for case in cases if case.name == name] for name in names]
    designs = [
        LargerBatches(some, size, seeded) for some in own for size in sizes for seeded in (False, True)
    ]
    seconds = ENGINE_LARGER_SHARE * context.budget / len(designs)
    return first_failure(rate, *(partial(_judged, design, context, seconds) for design in designs))


class LargerBatches(NamedTuple):
    """Batches of one size, of one engine; all their requests have seeds, or none has one."""

    cases: Sequence[Case]
    size: int
    seeded: bool


def _judged(design: LargerBatches, context: Context, seconds: float, rate: float) -> CheckResult:
    """Judge batches of one design, whose last request is like the first one."""
    cases, size, seeded = design
    rng = context.stream("engine/batch/larger", size, int(seeded))
    kinds = [outcomes(case.code, case.prompt, LARGER_TOKENS, rng) for case in cases]
    places = [*(place % len(cases) for place in range(size - 1)), 0]
    process = EProcess.against([*(kinds[kind].law for kind in places), kinds[0].law_of_pairs])
    code, prompts, end = cases[0].code, [cases[kind].prompt for kind in places], time.perf_counter() + seconds
    for _ in range(effort.ENGINE_ROUNDS):
        drawn = []
        for _ in range(ENGINE_LARGER_LOOK):
            seeds = rng.integers(2**31, size=size).tolist() if seeded else [None] * size
            with raising():
                returned = generated_together(code.engine, prompts, LARGER_TOKENS, seeds)
            drawn.append([code.checked(one, LARGER_TOKENS, "generate_batch") for one in returned])
        columns = list(zip(*drawn, strict=True))
        for place, kind in enumerate(places):
            found = [kinds[kind].outcome(one) for one in columns[place]]
            process = process.observe(np.bincount(found, minlength=len(kinds[kind].law)), place)
        pairs = kinds[0].pairs(columns[0], columns[-1])
        process = process.observe(np.bincount(pairs, minlength=len(kinds[0].law_of_pairs)), size)
        is_known = context.admitted is not None and lower_bound(process, rate) <= context.admitted
        if (process.p_value <= rate and not is_known) or time.perf_counter() > end:
            break
    what = f"completions of batches of {size} requests{', with seeds' * seeded}"
    return judge_process(what, process, rate)
