"""The check `batch`: a request's result ignores its batch mates, their number and its own place."""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.sampler.dependence import Design
from spec_oracle.audit.verifier.subject import VerifierSubject
from spec_oracle.exact.call import call_verifier, fresh_state
from verifiers import AnyVerifier, Drafts, replayed_decisions

BATCHES = (
    *(Design((2,), 601), Design((16,), 151), Design((33,), 79)),
    *(Design((128,), 37), Design((130,), 37), Design((1030,), 19)),
)
"""Half as many calls as are made, at each size: primes, so that no usual period hides in their halves."""


REPLAYED = 16
"""Requests of a batch that are replayed alone."""


UNIFORMS = 64
"""More than any request takes."""


# WAY @BATCH.way(VerifierSubject)
def batch(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    del alpha
    verifier, rng = subject.verifier, np.random.default_rng(context.seed)
    instance = next(iter(context.toys(subject.num_paths).values()))
    sizes = [size for design in BATCHES for size in design.sizes]
    for size in sizes:
        drafts = sampled_drafts(instance, size, rng, subject.drafting)
        uniforms = rng.random((size, UNIFORMS))
        together, order = verdicts(verifier, drafts, uniforms), rng.permutation(size)
        if not np.array_equal(together[order], verdicts(verifier, *_rows(drafts, uniforms, order))):
            return failed(f"a batch of {size} is decided otherwise in another order")
        for row in {0, size - 1, *order[:REPLAYED].tolist()}:
            alone = verdicts(verifier, *_rows(drafts, uniforms, np.array([row])))
            if not np.array_equal(together[[row]], alone):
                return failed(f"request {row} of {size} is decided otherwise alone")
    return passed(f"requests of batches of {', '.join(map(str, sizes))} decided alike alone and in any order")


def _rows(
    drafts: Drafts, uniforms: NDArray[np.float64], rows: NDArray[np.int64]
) -> tuple[Drafts, NDArray[np.float64]]:
    return _ordered(drafts, rows), uniforms[rows]


def _ordered(drafts: Drafts, rows: NDArray[np.int64]) -> Drafts:
    return Drafts(*(array[rows] for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs)))


def verdicts(verifier: AnyVerifier, drafts: Drafts, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (tau, path, next token) of every request, int [B, 3], decided by its row of ``uniforms``."""
    state = fresh_state(verifier, drafts.batch)
    verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
    return np.stack([verdict.num_accepted, verdict.path, verdict.next_token], axis=1)
