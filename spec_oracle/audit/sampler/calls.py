"""The check `calls`: is the text of several calls the target's? No call remembers or repeats another one."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampler.dependence import BUDGET_SHARE, Design, equal_calls, independent
from spec_oracle.audit.sampler.keyed import TOKENS, decoded_texts, expected_of, law_of_texts, verified_by
from spec_oracle.audit.sampler.pairs import PairToy
from spec_oracle.audit.sampler.row_by_row import rows_needed
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampling import watched
from spec_oracle.statistics import DEFAULT_MISS

ROUNDS = 6


BATCH = 500


LEAST_BATCH = 100
"""Requests of a call of slow code."""


KEYED_REQUESTS = 16


RULE_TEXTS = 20_000


CHAINS = (Design((4,), 151), Design((1, 2, 16, 33), 151))
"""Chains of 302 calls, of one batch size and of several in turn, as engines keep graphs for each size."""


TURNS = ("flat", "reversed")
"""Instances whose calls take turns."""


PAIRS_TV = 0.1
"""Total variation of such pairs that must be found, or twice that where texts are short."""


# WAY @CALLS.way(SamplerSubject, **COST, of_a_true_law=True) @CALLS.way(SamplerSubject, **COST, of_a_true_law=True, known=_beside_rule)
def _of_functions(subject: Any, context: Context) -> CheckResult:
    """Judge whether calls are independent: consecutive ones of two instances, equal ones at any distance."""
    return first_failure(
        alpha,
        lambda rate: _consecutive(subject, context, rate),
        lambda rate: independent(
            equal_calls(subject, context.seed),
            CHAINS,
            rate,
            affordable=context.affordable(subject, BUDGET_SHARE),
        ),
    )


def _consecutive(subject: Any, context: Context) -> CheckResult:
    """Judge whether consecutive calls with one generator, on fresh drafts, are independent.

    Calls take turns between two instances of one shape, as other requests come by in a service: rows that
    were kept from the call before are another model's.
    """
    toys = panel(3, 1, subject.num_paths, context.seed)
    first, second = (toys[name] for name in TURNS)
    toy = PairToy(subject.code, (first, second), context.seed)
    generator = subject.code.generator(context.seed)
    affordable = context.affordable(subject, BUDGET_SHARE)
    batch = int(np.clip(affordable / ROUNDS / 2, LEAST_BATCH, BATCH))

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [toy.paired(*(toy.texts(batch, generator, member) for member in (0, 1)))]

    return watched("texts of two calls", [toy.law], rounds(), alpha=alpha)


# WAY @CALLS.way(SamplerSubject)
def _own_keys(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge text over several calls under the engine's own keying, beside texts of its rule, as budgeted.

    Where the rule's texts follow the law, enough of the engine's that are the same settle it; else they are
    judged by themselves.
    """
    rng = np.random.default_rng([context.seed, 4])
    by_engine, by_rule = verified_by(subject.engine), expected_of(subject.engine)
    law = law_of_texts()
    ruled = watched(
        "texts", [law], [[decoded_texts(by_rule, rng.integers(2**62, size=RULE_TEXTS))]], alpha=alpha
    )
    needed = rows_needed(PAIRS_TV) if ruled.status is Status.PASSED else math.inf
    drawn = differing = 0

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        nonlocal drawn, differing
        end = time.perf_counter() + context.budget
        while time.perf_counter() < end and (differing or drawn < needed):
            seeds = rng.integers(2**62, size=KEYED_REQUESTS)
            texts = decoded_texts(by_engine, seeds)
            drawn += len(texts)
            differing += int((texts != decoded_texts(by_rule, seeds)).sum())
            yield [texts]

    found = watched(
        f"{TOKENS} tokens over several calls, noise keyed by seed and position", [law], rounds(), alpha=alpha
    )
    if found.status is not Status.PASSED or differing or drawn < needed:
        return found
    detail = (
        f"all {drawn} texts of {TOKENS} tokens as the rule's, its noise keyed by seed and position, "
        f"which finds a total variation of {PAIRS_TV} but for a chance of {DEFAULT_MISS}; "
        f"the rule's {ruled.detail}"
    )
    return replace(found, detail=detail)
