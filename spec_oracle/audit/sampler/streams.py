"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.sampler.pairs import PairToy
from spec_oracle.audit.sampling import watched

ROUNDS = 6


SEEDS_A_ROUND = 60


BATCH = 8


REPEATED = 64


# WAY @STREAMS.way( SamplerSubject, SamplerSubject, SamplerSubject, requests=2 * REPEATED + 2 * ROUNDS * SEEDS_A_ROUND * BATCH, of_a_true_law=True, )
def streams(subject: Any, context: Context) -> CheckResult:
    """Judge whether a function repeats itself on the same seed, and on no other.

    One that emits what a rule does with the same uniforms has no other streams than theirs.
    """
    instance = panel(3, 1, subject.num_paths, context.seed)["flat"]
    toy = PairToy(subject.code, (instance, instance), context.seed)
    seeds = checks_own_rng(context.seed).integers(2**31, size=(ROUNDS, SEEDS_A_ROUND))

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for chosen in seeds:
            texts, nexts = (
                np.concatenate([toy.texts(BATCH, subject.code.generator(int(s) + shift)) for s in chosen])
                for shift in (0, 1)
            )
            yield [toy.paired(texts, nexts)]

    def repeats(rate: float) -> CheckResult:
        del rate
        drafts = sampled_drafts(instance, REPEATED, checks_own_rng(context.seed))
        runs = [subject.code(drafts, subject.code.generator(context.seed)).tokens for _ in range(2)]
        return _same(runs, "on the same seed")

    parts = [repeats]
    if context.pair is None:
        parts.append(lambda rate: watched("texts of seeds s and s + 1", [toy.law], rounds(), alpha=rate))
    return first_failure(alpha, *parts)


def _same(runs: list[NDArray[np.int64]], when: str) -> CheckResult:
    count = len(runs[0])
    if np.array_equal(runs[0], runs[1]):
        return passed(f"{count} requests repeat {when}", draws=2 * count)
    return failed(f"{count} requests differ {when}", draws=2 * count)
