"""The check `inputs-kept`: the arrays that are handed over are unchanged after the call."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.batch import verdicts
from spec_oracle.audit.checks.check import Check, failed, passed
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.plain import plain_arguments, raising

REQUESTS = 64

INPUTS_KEPT = Check("inputs-kept", "are inputs unchanged after the call?", Fraction(1, 100))
INPUTS_KEPT.does_not_apply("it is handed no rows", SystemSubject, EngineSubject, ServerSubject)


@INPUTS_KEPT.way(VerifierSubject)
def _of_a_verifier(subject: VerifierSubject, bench: Bench, alpha: float) -> CheckResult:
    """Compare the drafts before and after; no error rate, one change proves it."""
    del alpha
    toy = next(iter(bench.toys(subject.num_paths).values()))
    rng = np.random.default_rng(bench.seed)
    drafts = sampled_drafts(toy, REQUESTS, rng, subject.drafting)
    handed = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    before = [array.copy() for array in handed]
    verdicts(subject.verifier, drafts, np.random.default_rng(bench.seed).random((REQUESTS, REQUESTS)))
    return _compared(before, handed)


@INPUTS_KEPT.way(FunctionSubject, UniformsSubject, KeyedSubject, requests=REQUESTS)
def _of_a_function(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Compare the arrays before and after; no error rate, one change proves it."""
    del alpha
    toy = panel(3, 3, subject.num_paths, bench.seed)["flat"]
    before = plain_arguments(sampled_drafts(toy, REQUESTS, checks_own_rng(bench.seed)))
    handed = [subject.code.handed(array) for array in before]
    with raising():
        subject.code.function(*handed, subject.code.generator(bench.seed))
    return _compared(before, handed)


def _compared(before: Sequence[Any], after: Sequence[Any]) -> CheckResult:
    for name, old, new in zip(("draft_tokens", "draft_probs", "target_probs"), before, after, strict=True):
        if not np.array_equal(old, np.asarray(new)):
            return failed(f"{name} changed during the call", draws=REQUESTS)
    return passed("inputs unchanged", draws=REQUESTS)
