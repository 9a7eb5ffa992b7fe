"""Laws of systems that draft for themselves, from the texts they decode."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.engine.toy_texts import PlainTexts, decoded, unseeded
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import CheckResult, Findings, scope_of
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts.steps import SystemFactory
from spec_oracle.toy import Instance

REQUESTS = 4000
"""Requests decoded together in a round."""

ROUNDS = 10


def one_call(factory: SystemFactory, instances: Mapping[str, Instance], alpha: float, seed: int) -> Findings:
    """Judge whether the first L+1 tokens after one call have the target's law, on every instance.

    The system draws its own drafts: a drafter that reports another law than it draws from is found, too.
    """
    some = next(iter(instances.values()))
    check = law_of_texts(
        factory,
        instances,
        tokens=some.draft_length + 1,
        steps=1,
        what="the law of one call",
        alpha=alpha,
        seed=seed,
    )
    return Findings(
        check,
        Evidence.STATISTICAL,
        total_variation=check.total_variation,
        scope=(scope_of("from texts", instances.values(), f"{check.draws} texts"),),
    )


def law_of_texts(
    factory: SystemFactory,
    instances: Mapping[str, Instance],
    *,
    tokens: int,
    steps: int,
    what: str,
    alpha: float,
    seed: int,
) -> CheckResult:
    """Judge the first ``tokens`` tokens after ``steps`` calls against plain decoding, on every instance."""
    systems = [factory(instance, seed) for instance in instances.values()]
    texts = [PlainTexts.of(system, tokens) for system in systems]
    rng = checks_own_rng(seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [
                text.cells(decoded(system, system.start(unseeded(REQUESTS)), REQUESTS, steps)[0], rng)
                for system, text in zip(systems, texts, strict=True)
            ]

    return watched(what, [text.law for text in texts], rounds(), alpha=alpha)
