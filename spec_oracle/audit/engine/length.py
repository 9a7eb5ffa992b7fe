"""The check `length`: the accepted length is distributed as by the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import verifiers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.requests import ENGINE_TV_WANTED, Requests
from spec_oracle.audit.engine.steps import (
    CALLS,
    ENGINE_STEPS_SHARE,
    accepted_pair,
    declared_instance,
    of_steps,
    sampled_steps,
)
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.experiment import Experiment, find
from spec_oracle.audit.results import CheckResult, How, not_asked, passed
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.toy import Instance


def length(subject: EngineSubject, context: Context) -> CheckResult:
    """Compare the accepted lengths of two calls with the declared rule and drafter: traced, or sampled.

    The reported length must also be what was emitted; where completions end early only that is judged.
    """
    cases = subject.cases(context, "start", "draft_probs")
    if subject.facts.rule_at is None:
        return not_asked("no rule is declared")
    if not cases:
        methods = "start() and draft_probs()"
        return not_asked(f"needs the optional methods {methods}; see docs/guide/audit-your-engine.md")
    if any(case.code.endings for case in cases):
        return _reported(subject.cases(context, "start_many"))
    requests = Requests(subject, context, "length")
    sizes = requests.in_addition(ENGINE_STEPS_SHARE, ENGINE_TV_WANTED)
    experiments = [accepted_lengths(case, requests) for case in cases]
    return requests.noted(find(experiments, context, sizes, doubt=requests.rounding.doubt))


def accepted_lengths(case: Case, requests: Requests) -> Experiment:
    """Return the experiment of the accepted lengths of two calls, expected by rule and drafter."""
    instance = declared_instance(case.code, case.prompt)
    tokens = CALLS * (instance.draft_length + 1)
    return of_steps(
        case,
        "accepted lengths of two calls beside the declared rule",
        accepted_pair,
        expect=partial(_law_of_two_calls, case.code.engine.rule, instance),
        allowed=tokens * requests.rounding.a_token,
        doubtful=tokens * requests.rounding.unsure,
    )


def _reported(cases: Sequence[Case]) -> CheckResult:
    """Compare reported lengths with emitted tokens only, if many requests can be decoded at once."""
    if not cases:
        return not_asked("calls end early, where a completion meets its stop token")
    for case in cases:
        for calls in sampled_steps(case, effort.ENGINE_MANY):
            accepted_pair(calls, may_end=True)
    return passed(
        "reported lengths are those emitted; not compared with the rule, since calls end at stop tokens",
        how=How.SAMPLED,
    )


def _law_of_two_calls(name: str, instance: Instance) -> Mapping[tuple[int, ...], float]:
    """Return P(tau_1, tau_2): the second call drafts from the tokens that the first one left."""
    rule, law = verifiers.get(name), defaultdict[tuple[int, ...], float](float)
    pmfs: dict[tuple[int, ...], Sequence[float]] = {}
    first: EmissionLaw = emission_law(rule, instance)
    for emission, mass in first.probabilities.items():
        # Models that forget let many completions share one continuation.
        last = emission[-max(instance.target.order, instance.draft.order) :]
        if last not in pmfs:
            pmfs[last] = emission_law(rule, instance.after(emission)).accepted_length_pmf
        for length, chance in enumerate(pmfs[last]):
            law[len(emission) - 1, length] += float(mass * chance)
    return {lengths: mass for lengths, mass in law.items() if mass}
