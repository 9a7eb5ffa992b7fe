"""The check `streams`: same seed same completion; other seeds, and requests without a seed, independent."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.engine.sampled import outcomes
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.sampler.dependence import CallSizes, independent
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import Ids

ENGINE_SEEDS: Final = 8  # Seeds whose completions must repeat.
ENGINE_PAIRS: Final = 240  # Pairs of completions whose independence `streams` judges, over all prompts.
# The same for neighbouring seeds where an engine decodes many requests at once.
ENGINE_PAIRS_MANY: Final = 12_000

TOKENS = effort.ENGINE_FIRST_TOKENS

Sample: TypeAlias = Callable[[Case, np.random.Generator, float], tuple[list[Ids], list[Ids]]]
"""Generates pairs of completions of a case: a share of all pairs."""


_UNRELATED: Final = 2
"""Engines of several whose completions are compared with each other: it takes 80 pairs of each."""


def streams(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether seeded completions repeat, and whether all other completions are independent."""
    if context.findings.is_reference_wrong:
        return inconclusive("next_token_probs is not the distribution of generate_plain")
    cases = list({case.name: case for case in reversed(subject.cases(context))}.values())
    seed_all(context.seed)
    judged = _unrelated if context.is_lossy(subject) else _pairs
    parts: list[Callable[[float], CheckResult]] = [
        partial(judged, cases, "pairs of completions without seed", _unseeded, context)
    ]
    if seeded := [case for case in cases if case.code.takes_seeds]:
        parts += [
            lambda _: _repeated(seeded, context.seed),
            partial(judged, seeded, "pairs of completions of seeds s and s + 1", _neighbours, context),
        ]
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


def _unseeded(case: Case, rng: np.random.Generator, share: float) -> tuple[list[Ids], list[Ids]]:
    """Pair completions of requests without seed that are served one after another."""
    del rng
    count = max(int(ENGINE_PAIRS * share), 4)
    drawn = [case.code.generated(case.prompt, TOKENS) for _ in range(2 * count)]
    return drawn[::2], drawn[1::2]


def _neighbours(case: Case, rng: np.random.Generator, share: float) -> tuple[list[Ids], list[Ids]]:
    """Pair completions of seeds s and s + 1."""
    pairs = ENGINE_PAIRS_MANY if case.code.has("start_many") else ENGINE_PAIRS
    seeds = rng.integers(2**31 - 1, size=max(int(pairs * share), 4)).tolist()
    first, second = (
        case.code.completions(case.prompt, TOKENS, [seed + shift for seed in seeds]) for shift in (0, 1)
    )
    return first, second


def _unrelated(
    cases: Sequence[Case], what: str, sample: Sample, context: Context, rate: float
) -> CheckResult:
    """Judge whether pairs of completions are independent, whatever their distribution is."""
    rng, few = context.stream(f"engine/streams/unrelated {what}"), cases[:_UNRELATED]

    def judged(case: Case, part: float) -> CheckResult:
        first, second = sample(case, rng, 1 / len(few))
        rows = len(first) // 2 * 2
        pairs = np.full((rows, 2, TOKENS + 1), -1)
        for row, both in enumerate(zip(first[:rows], second, strict=False)):
            for column, completion in enumerate(both):
                pairs[row, column, : len(completion)] = completion
        found = independent(lambda _: pairs, [CallSizes((2,), rows // 2)], part)
        return replace(found, detail=f"{case.label}: {what}: {found.detail}")

    return first_failure(rate, *(partial(judged, case) for case in few))


def _pairs(
    cases: Sequence[Case],
    what: str,
    sample: Sample,
    context: Context,
    rate: float,
) -> CheckResult:
    """Judge whether pairs of completions are independent, and each is distributed as it should be."""
    rng = context.stream(f"engine/streams/{what}")
    kinds = [outcomes(case.code, case.prompt, TOKENS, rng) for case in cases]

    share = 1 / effort.ENGINE_ROUNDS / len(cases)
    rounds = (
        [kind.pairs(*sample(case, rng, share)) for case, kind in zip(cases, kinds, strict=True)]
        for _ in range(effort.ENGINE_ROUNDS)
    )
    return judge_rounds(what, [kind.law_of_pairs for kind in kinds], rounds, alpha=rate)
