"""The check `inputs-kept`: the arrays that are handed over are unchanged after the call."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spec_oracle.audit.checks.batch import verdicts
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.verifier.subject import VerifierSubject

REQUESTS = 64


# WAY @INPUTS_KEPT.way(VerifierSubject)
def inputs_kept(subject: VerifierSubject, context: Context) -> CheckResult:
    """Compare the drafts before and after; no error rate, one change proves it."""
    del alpha
    toy = next(iter(context.toys(subject.num_paths).values()))
    rng = np.random.default_rng(context.seed)
    drafts = sampled_drafts(toy, REQUESTS, rng, subject.drafting)
    handed = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    before = [array.copy() for array in handed]
    verdicts(subject.verifier, drafts, np.random.default_rng(context.seed).random((REQUESTS, REQUESTS)))
    return _compared(before, handed)


def _compared(before: Sequence[Any], after: Sequence[Any]) -> CheckResult:
    for name, old, new in zip(("draft_tokens", "draft_probs", "target_probs"), before, after, strict=True):
        if not np.array_equal(old, np.asarray(new)):
            return failed(f"{name} changed during the call", draws=REQUESTS)
    return passed("inputs unchanged", draws=REQUESTS)
