"""The check `length`: the accepted length is distributed as by the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.engine import steps
from spec_oracle.audit.engine.rounding import Rounding, rounding_of
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, not_asked, passed
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.toy import Instance


def length(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge the accepted lengths of two calls against rule and drafter as declared: traced, or sampled.

    The reported length must also be what was emitted; where completions end early only that is judged.
    """
    cases = subject.cases(context, "start", "draft_probs")
    if subject.facts.rule_at is None:
        return not_asked("no rule is declared")
    if not cases:
        methods = "start() and draft_probs()"
        return not_asked(f"needs the optional methods {methods}; see docs/guide/audit-your-engine.md")
    if any(case.code.endings for case in cases):
        return _reported(subject.cases(context, "start_many"), context)
    instances = [steps.declared_instance(case.code, case.prompt) for case in cases]
    laws = [_law_of_two_calls(case.code.engine.rule, at) for case, at in zip(cases, instances, strict=True)]
    widths = [instance.draft_length + 1 for instance in instances]
    traced = partial(_traced, cases, laws, widths, rounding_of(subject, context))
    return first_that_works([traced, partial(_sampled, cases, laws, widths, context)])


def _reported(cases: Sequence[Case], context: Context) -> CheckResult:
    """Judge only whether reported lengths are what was emitted, where that is quick."""
    if not cases:
        return not_asked("calls end early, where a completion meets its stop token")
    for case in cases:
        for calls in steps.sampled_steps(case, context):
            steps.accepted_pair(calls, may_end=True)
    return passed(
        "reported lengths are those emitted; not compared with the rule, since calls end at stop tokens",
        how=How.SAMPLED,
    )


def _traced(
    cases: Sequence[Case], laws: Sequence[NDArray[np.float64]], widths: Sequence[int], rounding: Rounding
) -> CheckResult:
    found = [
        steps.accepted_law(steps.traced_steps(case), width) for case, width in zip(cases, widths, strict=True)
    ]
    gap = max(float(abs(mine - law).sum() / 2) for mine, law in zip(found, laws, strict=True))
    what = "accepted lengths of two calls are {}distributed as by the declared rule"
    tokens = steps.CALLS * max(widths)
    if not rounding.explains(gap, tokens):
        detail = f"{what.format('not ')}: total variation {gap:.3g}"
        if rounding.may_explain(gap, tokens):
            return inconclusive(f"{detail}; {rounding.doubt}", how=How.PROVEN, notes=rounding.notes)
        return failed(detail, how=How.PROVEN)
    return passed(f"{what.format('')}, up to {gap:.1e}", how=How.PROVEN)


def _sampled(
    cases: Sequence[Case], laws: Sequence[NDArray[np.float64]], widths: Sequence[int], context: Context
) -> CheckResult:
    outcomes = []
    for case, width in zip(cases, widths, strict=True):
        pairs = (steps.accepted_pair(calls) for calls in steps.sampled_steps(case, context))
        outcomes.append(np.array([first * width + second for first, second in pairs]))
    return judge_rounds("accepted lengths of two calls", laws, [outcomes], alpha=context.rate)


def _law_of_two_calls(name: str, instance: Instance) -> NDArray[np.float64]:
    """Return P(tau_1, tau_2), flat: the second call drafts from the tokens that the first one left."""
    rule = verifiers.get(name)
    law = np.zeros((instance.draft_length + 1,) * 2)
    pmfs: dict[tuple[int, ...], Sequence[float]] = {}
    first: EmissionLaw = emission_law(rule, instance)
    for emission, mass in first.probabilities.items():
        # Models that forget let many completions share one continuation.
        last = emission[-max(instance.target.order, instance.draft.order) :]
        if last not in pmfs:
            pmfs[last] = emission_law(rule, instance.after(emission)).accepted_length_pmf
        law[len(emission) - 1] += mass * np.asarray(pmfs[last])
    return law.reshape(-1)
