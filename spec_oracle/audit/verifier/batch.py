"""The check `batch`: a request's result ignores the others of its batch, their number and its own place.

Requests are verified together, alone, and in another order, with the same uniforms; results must be equal.
"""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.panel import instances_for
from spec_oracle.audit.results import CheckResult, How, failed, not_asked, passed
from spec_oracle.audit.sampler.batch import chosen_requests
from spec_oracle.audit.verifier.subject import VerifierSubject
from spec_oracle.exact.call import call_verifier, fresh_state
from verifiers import AnyVerifier, Drafts, replayed_decisions

UNIFORMS = 64
"""More than any request takes."""


def batch(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    if subject.never_batched:
        return not_asked(subject.never_batched)
    rng = context.stream("verifier/batch")
    instance = next(iter(instances_for(context, subject.num_paths).values()))
    for size in effort.BATCH_TURNS:
        drafts = sampled_drafts(instance, size, rng, subject.drafting)
        uniforms, order = rng.random((size, UNIFORMS)), rng.permutation(size)

        def again(requests: NDArray[np.int64]) -> NDArray[np.int64]:
            return verdicts(subject.verifier, chosen_requests(drafts, requests), uniforms[requests])  # noqa: B023

        found = verdicts(subject.verifier, drafts, uniforms)
        if not np.array_equal(found[order], again(order)):
            detail = f"in a batch of {size}, requests get other results in another order"
            return failed(detail, how=How.REPLAYED)
        for request in {0, size - 1, *order[: effort.BATCH_REPLAYED].tolist()}:
            if not np.array_equal(found[[request]], again(np.array([request]))):
                detail = f"request {request} of a batch of {size} gets another result alone"
                return failed(detail, how=How.REPLAYED)
    sizes = ", ".join(map(str, effort.BATCH_TURNS))
    return passed(f"same results alone and in any order, in batches of {sizes}", how=How.REPLAYED)


def verdicts(verifier: AnyVerifier, drafts: Drafts, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (tau, path, next token) of every request, int [B, 3], decided by its row of ``uniforms``."""
    state = fresh_state(verifier, drafts.batch)
    verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
    return np.stack([verdict.num_accepted, verdict.path, verdict.next_token], axis=1)
