"""Rows in float32, bfloat16 and float16: what the code under test computes in them keeps the law."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.audit.large_vocabulary import equal_tokens
from spec_oracle.audit.plain import call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import first_failure, watched
from spec_oracle.toy import Instance

DTYPES: Mapping[str, tuple[str, ...]] = {
    "torch": ("float32", "bfloat16", "float16"),
    "numpy": ("float32", "float16"),
}
"""The types that rows may come in besides float64, by array library."""

ROUNDS = 4
REQUESTS = 1000


def low_precision(
    check: str, subject: Subject, instance: Instance, *, alpha: float, seed: int
) -> CheckResult:
    """Judge a function in every type on a toy and on a large vocabulary.

    The rows of ``instance`` must be exact in every type, so that its law is the one to be kept. A type
    that the function refuses with an exception is named in the detail and counts for nothing.
    """
    refused: list[str] = []
    results: list[CheckResult] = []
    rate = alpha / (2 * len(DTYPES[subject.array]))
    for dtype in DTYPES[subject.array]:
        result = _in_one_type(check, replace(subject, dtype=dtype), instance, rate, seed)
        if result.status is Status.FAILED:
            return replace(result, alpha=alpha)
        if result.status is Status.PASSED:
            results.append(result)
        else:
            refused.append(f"{dtype} ({result.detail})")
    if not results:
        return CheckResult(check, Status.NOT_RUN, f"refused {', '.join(refused)}", alpha)
    detail = results[-1].detail + (f"; refused {', '.join(refused)}" if refused else "")
    return replace(results[-1], detail=detail, alpha=alpha, draws=sum(result.draws for result in results))


def _in_one_type(check: str, subject: Subject, instance: Instance, alpha: float, seed: int) -> CheckResult:
    rng, generator = checks_own_rng(seed), make_generator(subject.array, seed)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            emissions = call_plain(subject, sampled_drafts(instance, REQUESTS, rng), generator)
            yield [extended_cells(instance, emissions.tokens, emissions.lengths, rng)]

    law = instance.floats.target.joint(instance.draft_length + 1)
    what = f"texts in {subject.dtype}"
    return first_failure(
        check,
        lambda: watched(check, what, [law], rounds(), alpha=alpha),
        lambda: equal_tokens(check, subject, alpha=alpha, seed=seed),
    )
