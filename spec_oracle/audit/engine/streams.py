"""The check `streams`: same seed same completion; other seeds, and requests without a seed, independent."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.engine.requests import EngineRequest, Requests
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.experiment import Experiment, Ledger, find
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed
from spec_oracle.audit.sampler.dependence import CallSizes, independent
from spec_oracle.exact.completions import Ids

ENGINE_SEEDS: Final = 8  # Seeds whose completions must repeat.
ENGINE_PAIRS: Final = 240  # Pairs of completions of an engine whose distribution is wrong.
ENGINE_PAIRS_SHARE: Final = 0.1  # Share of the budget for pairs where they are sampled.
ENGINE_PAIRS_TV: Final = 0.2  # TV of pairs that samples should detect.

TOKENS = effort.ENGINE_FIRST_TOKENS

_UNRELATED: Final = 2
"""Engines of several whose completions are compared with each other: it takes 80 pairs of each."""


def streams(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether seeded completions repeat, and whether all other completions are independent."""
    if context.findings.is_reference_wrong:
        return inconclusive("next_token_probs is not the distribution of generate_plain")
    cases = list({case.name: case for case in reversed(subject.cases(context))}.values())
    requests = Requests(subject, context, "streams")
    seeded = [case for case in cases if case.code.takes_seeds]
    parts: list[Callable[[float], CheckResult]] = []
    if seeded:
        parts.append(lambda _: _repeated(seeded, context.seed))
    if context.is_lossy(subject):
        parts += [partial(_unrelated, some, requests) for some in (cases, seeded) if some]
    else:
        parts.append(partial(_pairs, cases, requests))
    return first_failure(context.rate, *parts)


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
    doubt, context = requests.rounding.doubt, replace(requests.context, rate=rate)
    needed = requests.effort(cases, ENGINE_PAIRS_SHARE, tv=math.inf, wanted=ENGINE_PAIRS_TV)
    return find(partial(in_a_row, cases, requests), context, needed, doubt=doubt)


def in_a_row(cases: Sequence[Case], requests: Requests, _: Ledger) -> Iterator[Experiment]:
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
