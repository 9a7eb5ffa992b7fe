"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.engine.toy_subject import SystemSubject
from spec_oracle.audit.engine.toy_texts import PlainTexts, decoded, unseeded
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts.steps import System

ROUNDS = 6


REPEATED = 64


REQUESTS = 500


FRESH_SESSIONS = 100


Sessions = Callable[[System], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Decodes two sets of requests by a system, and returns their texts, pair by pair."""


def _same(runs: list[NDArray[np.int64]], when: str) -> CheckResult:
    count = len(runs[0])
    if np.array_equal(runs[0], runs[1]):
        return passed(f"{count} requests repeat {when}", draws=2 * count)
    return failed(f"{count} requests differ {when}", draws=2 * count)


# WAY @STREAMS.way(SystemSubject)
def streams(subject: SystemSubject, context: Context) -> CheckResult:
    """Judge whether seeded requests repeat in another process, and whether all others are independent."""
    instance, seed = subject.toys(context)["flat"], context.seed

    def repeats(rate: float) -> CheckResult:
        del rate
        seeds, texts = list(range(seed, seed + REPEATED)), []
        for entropy in (seed, seed + 1):
            system = subject.factory(instance, entropy)
            texts.append(decoded(system, system.start(seeds), len(seeds), 2)[0])
        return _same(texts, "on the same seeds in another process")

    def pairs(what: str, sessions: Sessions) -> Callable[[float], CheckResult]:
        return lambda rate: _pairs_of_sessions(subject.factory(instance, seed), what, sessions, rate, seed)

    return first_failure(
        alpha,
        repeats,
        pairs("texts of seeds s and s + 1", _neighbouring_seeds(seed)),
        pairs("texts of requests without seed", _one_by_one),
    )


def _neighbouring_seeds(seed: int) -> Sessions:
    rng = checks_own_rng(seed)

    def sessions(system: System) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        seeds = rng.integers(2**31, size=REQUESTS)
        first, second = (
            decoded(system, system.start([int(s) + shift for s in seeds]), REQUESTS, 1)[0] for shift in (0, 1)
        )
        return first, second

    return sessions


def _one_by_one(system: System) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start requests one after another, as a server does; pair each with the next."""
    texts = [decoded(system, system.start(unseeded(1)), 1, 1)[0] for _ in range(2 * FRESH_SESSIONS)]
    return np.concatenate(texts[::2]), np.concatenate(texts[1::2])


def _pairs_of_sessions(system: System, what: str, sessions: Sessions, alpha: float, seed: int) -> CheckResult:
    texts, rng = PlainTexts.of(system, 2), checks_own_rng(seed)
    law = np.outer(texts.law, texts.law).reshape(-1)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            first, second = sessions(system)
            yield [texts.cells(first, rng) * len(texts.law) + texts.cells(second, rng)]

    return watched(what, [law], rounds(), alpha=alpha)
