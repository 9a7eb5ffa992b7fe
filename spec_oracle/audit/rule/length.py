"""The check `length` of rules: the accepted length is distributed as by the declared rule.

A rule is declared by its attribute ``rule``, the name of a built-in one. Losslessness does not fix how much
is accepted. All outcomes are run on the same drafts. Where no rule is declared, one is looked for that emits
the same after each of many drafts: its accepted length is then the same.
"""

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.rule.subject import RuleSubject


def length(subject: RuleSubject, context: Context) -> CheckResult:
    """Return what `joint` found of the accepted length."""
    if subject.name in verifiers.names():
        return not_asked("it is the reference for its rule")
    return context.findings.length or not_asked("no rule is declared")
