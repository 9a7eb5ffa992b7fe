"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.pairs import PairToy, pairs_over
from spec_oracle.audit.plain import call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.texts import PlainTexts, decoded, unseeded
from spec_oracle.audit.watch import first_failure, watched
from spec_oracle.systems.contract import System, SystemFactory
from spec_oracle.toy import Instance

ROUNDS = 6
SEEDS_A_ROUND = 60
BATCH = 8
REQUESTS = 500
FRESH_SESSIONS = 100


def streams_of_function(subject: Subject, instance: Instance, *, alpha: float, seed: int) -> CheckResult:
    """Judge whether a function repeats itself on the same seed, and on no other."""
    toy = PairToy((instance, instance), seed)
    seeds = checks_own_rng(seed).integers(2**31, size=ROUNDS * SEEDS_A_ROUND)

    def neighbours(number: int) -> NDArray[np.int64]:
        chosen = seeds[number * SEEDS_A_ROUND : (number + 1) * SEEDS_A_ROUND]
        texts = [toy.texts(subject, BATCH, make_generator(subject.array, int(s))) for s in chosen]
        nexts = [toy.texts(subject, BATCH, make_generator(subject.array, int(s) + 1)) for s in chosen]
        return toy.paired(np.concatenate(texts), np.concatenate(nexts))

    return first_failure(
        "streams",
        lambda: _function_repeats(subject, instance, seed),
        lambda: watched(
            "streams", "texts of seeds s and s + 1", [toy.law], pairs_over(ROUNDS, neighbours), alpha=alpha
        ),
    )


def _function_repeats(subject: Subject, instance: Instance, seed: int) -> CheckResult:
    drafts = sampled_drafts(instance, 64, checks_own_rng(seed))
    runs = [call_plain(subject, drafts, make_generator(subject.array, seed)) for _ in range(2)]
    same = np.array_equal(runs[0].tokens, runs[1].tokens)
    return CheckResult(
        "streams",
        Status.PASSED if same else Status.FAILED,
        f"{drafts.batch} requests {'repeat' if same else 'differ'} on the same seed",
        draws=2 * drafts.batch,
    )


def streams_of_system(factory: SystemFactory, instance: Instance, *, alpha: float, seed: int) -> CheckResult:
    """Judge whether seeded requests repeat in another process, and whether all others are independent."""
    return first_failure(
        "streams",
        lambda: _system_repeats(factory, instance, seed),
        lambda: _pairs_of_sessions(
            factory(instance, seed), "texts of seeds s and s + 1", _neighbouring_seeds(seed), alpha / 2, seed
        ),
        lambda: _pairs_of_sessions(
            factory(instance, seed), "texts of requests without seed", _one_by_one, alpha / 2, seed
        ),
    )


def _system_repeats(factory: SystemFactory, instance: Instance, seed: int) -> CheckResult:
    seeds = list(range(seed, seed + 64))
    texts = []
    for entropy in (seed, seed + 1):
        system = factory(instance, entropy)
        texts.append(decoded(system, system.start(seeds), len(seeds), 2)[0])
    same = np.array_equal(texts[0], texts[1])
    return CheckResult(
        "streams",
        Status.PASSED if same else Status.FAILED,
        f"{len(seeds)} seeded requests {'repeat' if same else 'differ'} in another process",
        draws=2 * len(seeds),
    )


Sessions = Callable[[System], tuple[NDArray[np.int64], NDArray[np.int64]]]


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

    return watched("streams", what, [law], rounds(), alpha=alpha)
