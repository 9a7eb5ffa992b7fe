"""The check `inputs-kept` for functions: the arrays handed over are unchanged after the call."""

import numpy as np

from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.plain import make_generator, plain_arguments, to_library
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.toy import Instance

REQUESTS = 64


def inputs_kept_by_function(subject: Subject, instance: Instance, *, seed: int) -> CheckResult:
    """Judge whether tokens and probabilities are as before; no error rate, one change proves it."""
    assert subject.function is not None
    drafts = sampled_drafts(instance, REQUESTS, checks_own_rng(seed))
    before = plain_arguments(drafts)
    handed = [to_library(array, subject.array) for array in before]
    try:
        subject.function(handed[0], handed[1], handed[2], make_generator(subject.array, seed))
    except Exception as error:  # noqa: BLE001  # the subject is anybody's code
        return CheckResult("inputs-kept", Status.INCONCLUSIVE, f"raised {type(error).__name__}: {error}")
    for name, old, new in zip(("draft_tokens", "draft_probs", "target_probs"), before, handed, strict=True):
        if not np.array_equal(old, np.asarray(new)):
            return CheckResult(
                "inputs-kept", Status.FAILED, f"{name} changed during the call", draws=REQUESTS
            )
    return CheckResult("inputs-kept", Status.PASSED, "inputs unchanged", draws=REQUESTS)
