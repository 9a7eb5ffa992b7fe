"""Rows in float32, bfloat16 and float16: what the code under test computes in them keeps the law."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import first_failure
from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampler.large_vocabulary import DRAWS as DRAWS_OF_EQUAL_TOKENS
from spec_oracle.audit.sampler.large_vocabulary import equal_tokens
from spec_oracle.audit.sampling import watched
from spec_oracle.contracts import SamplerCode
from spec_oracle.statistics import split
from spec_oracle.toy import Instance
from verifiers import Drafting

DTYPES: Mapping[str, tuple[str, ...]] = {
    "torch": ("float32", "bfloat16", "float16"),
    "numpy": ("float32", "float16"),
}
"""The types that rows may come in besides float64, by array library."""

ROUNDS = 4
REQUESTS = 1000
DRAWS = ROUNDS * REQUESTS + DRAWS_OF_EQUAL_TOKENS


def low_precision(
    code: SamplerCode, instance: Instance, drafting: Drafting, alpha: float, seed: int
) -> CheckResult:
    """Judge code in every type on a toy and on a large vocabulary.

    The rows of ``instance`` must be exact in every type, so that its law is the one to be kept. A type that
    the code refuses with an exception is named in the detail, and says nothing for or against it.
    """
    dtypes = DTYPES[code.array]
    rate = split(alpha, len(dtypes))
    details, draws = [], 0
    for dtype in dtypes:
        result = _in_one_type(replace(code, dtype=dtype), instance, drafting, rate, seed)
        if result.status is Status.FAILED:
            return result
        draws += result.draws
        details.append(
            f"{dtype} refused ({result.detail})"
            if result.status is Status.INCONCLUSIVE
            else f"{dtype}: {result.detail}"
        )
    return CheckResult("", Status.PASSED, "; ".join(details), alpha, draws)


def _in_one_type(
    code: SamplerCode, instance: Instance, drafting: Drafting, alpha: float, seed: int
) -> CheckResult:
    def texts(rate: float) -> CheckResult:
        rng, generator = checks_own_rng(seed), code.generator(seed)

        def rounds() -> Iterator[list[NDArray[np.int64]]]:
            for _ in range(ROUNDS):
                emissions = code(sampled_drafts(instance, REQUESTS, rng, drafting), generator)
                yield [extended_cells(instance, emissions.tokens, emissions.lengths, rng)]

        law = instance.floats.target.joint(instance.draft_length + 1)
        return watched(f"texts in {code.dtype}", [law], rounds(), alpha=rate)

    return first_failure(
        alpha, texts, lambda rate: equal_tokens(code, (instance.num_paths, drafting), rate, seed)
    )
