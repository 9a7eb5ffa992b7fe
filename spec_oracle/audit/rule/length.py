"""The check `length` of rules: the accepted length is distributed as by the declared rule.

A rule is declared by its attribute ``rule``, the name of a built-in one. Losslessness does not fix how much
is accepted. All outcomes are run on the same drafts. Where no rule is declared, one is looked for that emits
the same after each of many drafts: its accepted length is then the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import PATHS, ToyDrafts
from spec_oracle.audit.exact_comparison import LawsAfter, accepts, declared_length, with_rule
from spec_oracle.audit.results import CheckResult, Findings, not_asked
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.draft_tree import conditional_laws
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.threads import raising

_DRAFTS: Final = 64
"""After so many drafts of an instance a rule is compared with others, to find which it is."""


def length(subject: RuleSubject, context: Context) -> CheckResult:
    """Return what `joint` found of the accepted length."""
    if subject.name in verifiers.names():
        return not_asked("it is the reference for its rule")
    return context.findings.length or not_asked("no rule is declared")


def with_length(subject: RuleSubject, found: Findings, laws: Mapping[ToyDrafts, EmissionLaw]) -> Findings:
    """Add how much is accepted, and which rule emits the same, if none is declared."""
    # Rows of these differ everywhere; where p = q, or all of a residual is one token, rules are alike.
    telling = [case for case in laws if case.toy in {"flat", "peaked"}] or [*laws]
    if subject.facts.rule_at is not None:
        some = [case for case in laws if case.kind == PATHS or case in telling]
        on_these, drafted = (
            {case.name: laws[case] for case in some},
            {case.name: case.drafting for case in some},
        )
        length = declared_length(on_these, subject.facts, subject.facts.tolerance, drafted)
        return replace(found, length=length)
    some = [case for case in telling if case.kind in subject.one_of_each(case.instance)]
    try:
        after = [(case.instance, case.drafting, _after(subject, case)) for case in some]
    except (NotTracedError, DecisionError, VerdictError):  # not all of what comes after one draft can be run
        return found
    kinds = {case.kind: case.drafting for case in some}.values()
    names = [name for name in verifiers.names() if all(accepts(name, one) for one in kinds)]
    return with_rule(found, after, names)


def _after(subject: RuleSubject, case: ToyDrafts) -> LawsAfter:
    """Return the law of what is emitted after some drafts of a case, by their numbers."""
    table = DraftTable(case.instance.floats, case.drafting, NUMPY)
    rows = np.unique(np.linspace(0, len(table.law.probability) - 1, _DRAFTS).astype(np.int64))
    with raising():
        laws = conditional_laws(subject.rule, table.drafts(rows), array=subject.array)
    return dict(zip(rows.tolist(), laws, strict=True))
