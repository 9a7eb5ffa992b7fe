"""The check `inputs-kept`: the arrays that are handed over are unchanged after the call."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.contracts import contract_arguments, raising

REQUESTS = 64


# WAY @INPUTS_KEPT.way(SamplerSubject, SamplerSubject, SamplerSubject, requests=REQUESTS)
def inputs_kept(subject: Any, context: Context) -> CheckResult:
    """Compare the arrays before and after; no error rate, one change proves it."""
    del alpha
    toy = panel(3, 3, subject.num_paths, context.seed)["flat"]
    before = contract_arguments(sampled_drafts(toy, REQUESTS, checks_own_rng(context.seed)))
    handed = [subject.code.handed(array) for array in before]
    with raising():
        subject.code.function(*handed, subject.code.generator(context.seed))
    return _compared(before, handed)


def _compared(before: Sequence[Any], after: Sequence[Any]) -> CheckResult:
    for name, old, new in zip(("draft_tokens", "draft_probs", "target_probs"), before, after, strict=True):
        if not np.array_equal(old, np.asarray(new)):
            return failed(f"{name} changed during the call", draws=REQUESTS)
    return passed("inputs unchanged", draws=REQUESTS)
