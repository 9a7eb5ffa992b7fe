"""The check `length`: the accepted length has the law of the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.steps import (
    accepted_law,
    accepted_pair,
    declared_instance,
    drawn_steps,
    enumerated_steps,
    showing,
)
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.results import CheckResult, NoEvidenceError, Status, failed, passed
from spec_oracle.audit.sampling import watched
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.toy import Instance

SESSIONS = 500


# WAY @LENGTH.way(EngineSubject, known=_by_findings)
def length(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge the accepted lengths of two calls against rule and drafter as declared: enumerated, or drawn."""
    cases = [case for case in showing(subject.cases(context)) if case.code.has("draft_probs")]
    if not cases:
        return CheckResult("", Status.NOT_APPLICABLE, "it does not say what its drafter is meant to do")
    if any(case.code.endings for case in cases):
        return CheckResult("", Status.NOT_APPLICABLE, "calls end early, where a text meets its stop token")
    instances = [declared_instance(case.code, case.prompt) for case in cases]
    laws = [_law_of_two_calls(case.code.engine.rule, at) for case, at in zip(cases, instances, strict=True)]
    widths = [instance.draft_length + 1 for instance in instances]
    try:
        found = [
            accepted_law(enumerated_steps(case), width) for case, width in zip(cases, widths, strict=True)
        ]
    except NoEvidenceError:
        drawn = [[accepted_pair(steps) for steps in drawn_steps(case, SESSIONS)] for case in cases]
        cells = [
            np.array([first * width + second for first, second in pairs])
            for pairs, width in zip(drawn, widths, strict=True)
        ]
        return watched("accepted lengths of two calls", laws, [cells], alpha=alpha)
    gap = max(float(abs(mine - law).sum() / 2) for mine, law in zip(found, laws, strict=True))
    told = (
        f"accepted lengths of two calls are off those of the declared rule by a total variation of {gap:.3g}"
    )
    return failed(told) if gap > 2 * subject.facts.tolerance else passed(told)


def _law_of_two_calls(name: str, instance: Instance) -> NDArray[np.float64]:
    """Return P(tau_1, tau_2), flat: the second call drafts from the text that the first one left."""
    rule = verifiers.get(name)
    law = np.zeros((instance.draft_length + 1,) * 2)
    pmfs: dict[tuple[int, ...], Sequence[float]] = {}
    first: EmissionLaw = emission_law(rule, instance)
    for emission, mass in first.probabilities.items():
        # Models that forget let many texts share one continuation.
        last = emission[-max(instance.target.order, instance.draft.order) :]
        if last not in pmfs:
            pmfs[last] = emission_law(rule, instance.after(emission)).accepted_length_pmf
        law[len(emission) - 1] += mass * np.asarray(pmfs[last])
    return law.reshape(-1)
