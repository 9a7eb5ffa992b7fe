"""The check `calls`: is the text of several calls the target's? No call remembers or repeats another one."""

import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed
from spec_oracle.audit.checks.pairs import PairToy
from spec_oracle.audit.evidence.keyed import TOKENS, decoded_texts, law_of_texts
from spec_oracle.audit.evidence.texts import law_of_texts as law_of_system_texts
from spec_oracle.audit.evidence.watched import watched
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.exact import DecisionError, VerdictError, decoded_law

ROUNDS = 6
BATCH = 500
KEYED_REQUESTS = 16

SYSTEM_TOKENS = 4
"""Tokens of a system's text: two calls reach that far on toys of draft length 2."""

CALLS = Check(
    "calls", "is the text of several calls the target's?", Fraction(15, 100), speaks_against_law=True
)


@CALLS.way(VerifierSubject)
def _decoded(subject: VerifierSubject, bench: Bench, alpha: float) -> CheckResult:
    """Enumerate the text of several calls, carried state and a stop token included."""
    del alpha
    paths = next(iter(bench.toys(subject.num_paths).values())).num_paths
    instance = panel(2, 2, paths, bench.seed)["good-draft"]
    tokens = 2 * instance.draft_length + 1
    try:
        worst = max(
            decoded_law(
                subject.verifier,
                instance,
                tokens,
                exact=bench.exact,
                array="numpy" if bench.exact else bench.array,
                stop_token=stop,
            ).total_variation
            for stop in (None, 0)
        )
    except (DecisionError, VerdictError) as error:
        return failed(str(error))
    if worst > (0 if bench.exact else subject.facts.tolerance):
        result = failed(f"total variation {float(worst):.3g} of {tokens} tokens")
    else:
        size = "exactly 0" if bench.exact else f"at most {float(worst):.1e}"
        result = passed(f"total variation of the first {tokens} tokens {size}")
    return replace(result, total_variation=float(worst))


@CALLS.way(FunctionSubject, UniformsSubject, requests=2 * ROUNDS * BATCH, of_a_true_law=True)
def _consecutive(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether consecutive calls with one generator, on fresh drafts, are independent.

    Calls take turns between two instances of one shape, as other requests come by in a service: rows that
    were kept from the call before are another model's.
    """
    toys = panel(3, 1, subject.num_paths, bench.seed)
    toy = PairToy(subject.code, (toys["flat"], toys["reversed"]), bench.seed)
    generator = subject.code.generator(bench.seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [toy.paired(*(toy.texts(BATCH, generator, member) for member in (0, 1)))]

    return watched("texts of two calls", [toy.law], rounds(), alpha=alpha)


@CALLS.way(KeyedSubject)
def _own_keys(subject: KeyedSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge text over several calls under the engine's own keying, for as long as the budget allows."""
    rng = np.random.default_rng([bench.seed, 4])

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        end = time.perf_counter() + bench.budget
        while time.perf_counter() < end:
            texts = decoded_texts(subject.engine, rng.integers(2**62, size=KEYED_REQUESTS))
            yield [texts @ (2 ** np.arange(TOKENS)[::-1])]

    what = f"{TOKENS} tokens over several calls, noise keyed by seed and position"
    return watched(what, [law_of_texts()], rounds(), alpha=alpha)


@CALLS.way(SystemSubject)
def _texts(subject: SystemSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether text over several calls has the target's law; state and streams are carried over."""
    return law_of_system_texts(
        subject.factory,
        subject.toys(bench),
        tokens=SYSTEM_TOKENS,
        steps=2,
        what="the law of two calls",
        alpha=alpha,
        seed=bench.seed,
    )
