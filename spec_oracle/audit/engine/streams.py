"""The check `streams`: equal seeds repeat completions; all other completions are independent."""

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.dependence import CallSizes, independent
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.subject import Case, EngineSubject, first_prompts
from spec_oracle.audit.engine.tracer import EngineRequest, generated_together
from spec_oracle.audit.experiment import Experiment, find, first_failure, run_guarded
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed, remarked
from spec_oracle.contracts import raising
from spec_oracle.exact.completions import Ids

ENGINE_SEEDS: Final = 8  # Seeds whose completions must repeat.
# Sizes of batches whose seeded requests are asked for alone, too; rounds of them, and tokens.
ENGINE_SEEDED_BATCHES: Final = (2, 3, 5)
ENGINE_SEEDED_ROUNDS: Final = 4
ENGINE_SEEDED_TOKENS: Final = 8
ENGINE_PAIRS: Final = 240  # Pairs of completions of engines whose distribution is wrong.
ENGINE_PAIRS_SHARE: Final = 0.1  # Share of the budget for pairs where they are sampled.
ENGINE_PAIRS_TV: Final = 0.2  # TV of pairs that samples should detect.

TOKENS = effort.ENGINE_FIRST_TOKENS

_UNRELATED: Final = 2
"""Of several engines so many are tested for independence: each takes 80 pairs."""


def streams(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether seeded completions repeat, and whether pairs of other completions are independent."""
    if context.findings.is_reference_wrong:
        return inconclusive("next_token_probs is not the distribution of generate_plain")
    cases = first_prompts(subject.cases(context))
    requests = Requests(subject, context, "streams")
    seeded = [case for case in cases if case.code.takes_seeds]
    parts: list[Callable[[float], CheckResult]] = []
    if seeded:
        parts.append(lambda _: _repeated(seeded, context.seed))
    if context.is_lossy(subject):
        parts += [partial(_unrelated, some, requests) for some in (cases, seeded) if some]
    else:
        parts.append(partial(_pairs, cases, requests))
    if not (together := [case for case in seeded if case.code.has("generate_batch")]):
        return first_failure(context.rate, *parts)
    counted = run_guarded(partial(_alone_and_in_batches, together, subject.cases(context)))
    found = first_failure(context.rate, lambda _: counted, *parts)
    is_said = found.detail == counted.detail
    return found if is_said else remarked(found, notes=(*found.remarks.notes, f"streams: {counted.detail}"))


def _alone_and_in_batches(cases: Sequence[Case], every: Sequence[Case]) -> CheckResult:
    """Count seeded requests that get the same completion alone and in batches of unlike requests.

    Fails if an engine promises the same completion for all of them.
    """
    same, seeds, tokens = dict[Case, int](), itertools.count(100), ENGINE_SEEDED_TOKENS
    sizes = ENGINE_SEEDED_BATCHES * ENGINE_SEEDED_ROUNDS
    for case in cases:
        prompts, code, same[case] = [one.prompt for one in every if one.name == case.name], case.code, 0
        for size in sizes:
            asked = [(prompts[seed % len(prompts)], seed) for seed in itertools.islice(seeds, size)]
            with raising():
                found = generated_together(
                    code, [EngineRequest(one, tokens) for one, _ in asked], [one for _, one in asked]
                )
            together = [code.checked(one, tokens, "generate_batch") for one in found]
            alone = [code.generated(prompt, tokens, seed) for prompt, seed in asked]
            same[case] += sum(map(operator.eq, together, alone))
    promised = [case for case in cases if case.code.is_batch_invariant and same[case] < sum(sizes)]
    count, total = sum(same.values()), len(cases) * sum(sizes)
    fact = f"{count} of {total} seeded requests get the same completion alone and in a batch"
    if promised:
        return failed(f"{fact}, though batch_invariant is set", draws=2 * total, how=How.SAMPLED)
    fact += "; if all should, set batch_invariant = True" * (count < total)
    return passed(fact, draws=2 * total, how=How.SAMPLED)


def _repeated(cases: Sequence[Case], seed: int) -> CheckResult:
    seeds = range(seed, seed + ENGINE_SEEDS)
    draws = 2 * len(seeds)
    for case in cases:
        first, again = (
            {s: case.code.generated(case.prompt, TOKENS, s) for s in order} for order in (seeds, seeds[::-1])
        )
        if moved := [s for s in seeds if first[s] != again[s]]:
            detail = f"{case.label}: seeds {moved} give another completion the second time"
            return failed(detail, draws=draws, how=How.SAMPLED)
    detail = f"{len(seeds)} seeds repeat their completions"
    return passed(detail, draws=draws * len(cases), how=How.SAMPLED)


def _pairs(cases: Sequence[Case], requests: Requests, rate: float) -> CheckResult:
    """Judge pairs of completions that are generated one after the other."""
    needed, own = (
        requests.in_addition(ENGINE_PAIRS_SHARE, ENGINE_PAIRS_TV),
        replace(requests.context, rate=rate),
    )
    return find([*in_a_row(cases, requests)], own, needed, doubt=requests.rounding.doubt)


def in_a_row(cases: Sequence[Case], requests: Requests) -> Iterator[Experiment]:
    """Yield pairs of requests without seed, and pairs with seeds s and s + 1."""
    for seeded in (False, True):
        for case in (case for case in cases if case.code.takes_seeds or not seeded):
            one = EngineRequest(case.prompt, TOKENS, seeded)
            group = "seeds s and s + 1" if seeded else "pairs without seed"
            yield requests.calls(case, [[one], [one]], neighbours=seeded, group=group)


def _unrelated(cases: Sequence[Case], requests: Requests, rate: float) -> CheckResult:
    """Judge whether pairs of completions are independent, whatever their distribution is."""
    few, seeded = cases[:_UNRELATED], cases[0].code.takes_seeds

    def judged(case: Case, part: float) -> CheckResult:
        one = EngineRequest(case.prompt, TOKENS, seeded)
        pairs = requests.calls(case, [[one], [one]], neighbours=seeded)
        outcomes = [_padded(pair) for pair in pairs.many(2 * (ENGINE_PAIRS // len(few) // 2))]
        found = independent(lambda _: np.array(outcomes), [CallSizes((2,), len(outcomes) // 2)], part)
        return replace(found, detail=f"{pairs.what}: {found.detail}")

    return first_failure(rate, *(partial(judged, case) for case in few))


def _padded(pair: tuple[Ids, Ids]) -> list[list[int]]:
    return [[*one, *[-1] * (TOKENS + 1 - len(one))] for one in pair]
