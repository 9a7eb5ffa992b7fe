"""Laws of systems that draft for themselves: `joint` for one call, `calls` for several."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.texts import PlainTexts, decoded, unseeded
from spec_oracle.audit.watch import watched
from spec_oracle.systems.contract import System, SystemFactory
from spec_oracle.toy import Instance

REQUESTS = 4000
"""Requests decoded together in a round."""

ROUNDS = 10
TOKENS_OF_CALLS = 4
"""Tokens whose law `calls` checks: two calls reach that far on toys of draft length 2."""


def joint_of_system(
    factory: SystemFactory, instances: Mapping[str, Instance], *, alpha: float, seed: int
) -> CheckResult:
    """Judge whether the first L+1 tokens after one call have the target's law, on every instance.

    The system draws its own drafts: a drafter that reports another law than it draws from is found, too.
    """
    systems = [factory(instance, seed) for instance in instances.values()]
    texts = [PlainTexts.of(system, system.instance.draft_length + 1) for system in systems]
    return _law_of_texts("joint", "the law of one call", systems, texts, steps=1, alpha=alpha, seed=seed)


def calls_of_system(
    factory: SystemFactory, instances: Mapping[str, Instance], *, alpha: float, seed: int
) -> CheckResult:
    """Judge whether text over several calls has the target's law; state and streams are carried over."""
    systems = [factory(instance, seed) for instance in instances.values()]
    texts = [PlainTexts.of(system, TOKENS_OF_CALLS) for system in systems]
    return _law_of_texts("calls", "the law of two calls", systems, texts, steps=2, alpha=alpha, seed=seed)


def _law_of_texts(
    check: str,
    what: str,
    systems: list[System],
    texts: list[PlainTexts],
    *,
    steps: int,
    alpha: float,
    seed: int,
) -> CheckResult:
    rng = checks_own_rng(seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [
                text.cells(decoded(system, system.start(unseeded(REQUESTS)), REQUESTS, steps)[0], rng)
                for system, text in zip(systems, texts, strict=True)
            ]

    return watched(check, what, [text.law for text in texts], rounds(), alpha=alpha)
