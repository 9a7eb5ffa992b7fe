"""The check `batch`: a request's result ignores its batch mates, their number and its own place."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.engine.toy_subject import SystemSubject
from spec_oracle.audit.engine.toy_texts import PlainTexts, decoded, unseeded
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.sampler.dependence import Design, independent, sessions
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts.steps import SystemFactory
from spec_oracle.toy import Instance

BATCHES = (
    *(Design((2,), 601), Design((16,), 151), Design((33,), 79)),
    *(Design((128,), 37), Design((130,), 37), Design((1030,), 19)),
)
"""Half as many calls as are made, at each size: primes, so that no usual period hides in their halves."""


ROUNDS = 6


REQUESTS = 2000


STEPS = 2


# WAY @BATCH.way(SystemSubject)
def batch(subject: SystemSubject, context: Context) -> CheckResult:
    """Judge whether seeded requests repeat in any batch, and whether the others stay independent in one."""
    instance = subject.toys(context)["flat"]
    return first_failure(
        alpha,
        lambda _: _same_in_any_batch(subject.factory, instance, context.seed),
        lambda rate: _independent_beside_seeded(subject.factory, instance, rate, context.seed),
        lambda rate: independent(sessions(subject.factory(instance, context.seed)), BATCHES, rate),
    )


def _same_in_any_batch(factory: SystemFactory, instance: Instance, seed: int) -> CheckResult:
    seeds = list(range(100, 116))

    def texts(order: Sequence[int | None]) -> dict[int, int]:
        system = factory(instance, seed)
        reached, _ = decoded(system, system.start(order), len(order), STEPS)
        return {s: int(text) for s, text in zip(order, reached, strict=True) if s is not None}

    alone = {s: text for one in seeds for s, text in texts([one]).items()}
    batches: dict[str, Sequence[int | None]] = {
        "together": seeds,
        "in another order": seeds[::-1],
        "in a batch of odd size": seeds[:5],
        "beside requests without seed": [s for pair in zip(seeds, unseeded(16), strict=True) for s in pair],
    }
    for name, order in batches.items():
        found = texts(order)
        moved = [s for s, text in found.items() if alone[s] != text]
        if moved:
            return failed(f"requests with seeds {moved} decode otherwise {name}")
    return passed(f"{len(seeds)} seeded requests decode alike in any batch")


def _independent_beside_seeded(
    factory: SystemFactory, instance: Instance, alpha: float, seed: int
) -> CheckResult:
    """Pair neighbouring requests without seed, in batches where every third request has one."""
    system, rng = factory(instance, seed), checks_own_rng(seed)
    texts = PlainTexts.of(system, 2)
    law = np.outer(texts.law, texts.law).reshape(-1)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            seeds: list[int | None] = [
                int(s) if i % 3 == 0 else None for i, s in enumerate(rng.integers(2**31, size=REQUESTS))
            ]
            reached, _ = decoded(system, system.start(seeds), REQUESTS, 1)
            cells = texts.cells(reached, rng)
            first, second = cells[1::3], cells[2::3]
            count = min(len(first), len(second))
            yield [first[:count] * len(texts.law) + second[:count]]

    return watched("texts of neighbours without seed", [law], rounds(), alpha=alpha)
