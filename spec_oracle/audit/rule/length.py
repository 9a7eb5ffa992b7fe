"""The check `length` of rules: the accepted length is distributed as by the declared rule.

A rule is declared by its attribute ``rule``, the name of a built-in one. Losslessness does not fix how much
is accepted. All outcomes are run on the same drafts. Where no rule is declared, one is looked for that emits
the same after each of many drafts: its accepted length is then the same.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.exact_comparison import (
    SomeDrafts,
    accepts,
    declared_length,
    drafts_of,
    identified,
    length_as,
)
from spec_oracle.audit.results import CheckResult, not_asked
from spec_oracle.audit.rule.draftings import PATHS, Case
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.conditional import conditional_laws
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.threads import raising
from spec_oracle.toy import Instance

_TREES, _STEP = 64, 8
"""Drafts of each kind after which rules are compared at most, and of how many one comes first."""


def length(subject: RuleSubject, context: Context) -> CheckResult:
    """Return what `joint` found of the accepted length."""
    if subject.name in verifiers.names():
        return not_asked("it is the reference for its rule")
    return context.findings.length or not_asked("no rule is declared")


def rule_and_length(
    subject: RuleSubject, cases: Iterable[Case], laws: Mapping[str, EmissionLaw]
) -> tuple[str | None, CheckResult | None]:
    """Return the rule that emits the same, if none is declared, and what is known of the accepted length.

    ``laws`` are the output distributions by the names of ``cases``.
    """
    if subject.name in verifiers.names():
        return None, None
    # Rows of these differ everywhere; where p = q, or all of a residual is one token, rules are alike.
    telling = [case for case in cases if case.toy in {"flat", "peaked"}] or [*cases]
    if subject.facts.rule_at is not None:
        some = [case for case in cases if case.kind == PATHS or case in telling]
        drafted = {case.name: case.drafting for case in some}
        of_cases = {name: laws[name] for name in drafted}
        return None, declared_length(of_cases, subject.facts, subject.facts.tolerance, drafted)
    try:
        with raising():
            return _identified(subject, [case.instance for case in telling if case.kind == PATHS])
    except (NotTracedError, DecisionError, VerdictError):  # not all of what comes after one draft can be run
        return None, None


def _identified(
    subject: RuleSubject, instances: Sequence[Instance]
) -> tuple[str | None, CheckResult | None]:
    """Look for a built-in rule with the same law after each of many drafts; it must accept all kinds."""
    kinds = [
        (toy, drafting) for toy in instances for drafting in subject.one_of_each(toy).values()
    ]
    few, others = list[SomeDrafts](), list[SomeDrafts]()
    for toy, drafting in kinds:
        last = len(DraftTable(toy.floats, drafting, NUMPY).law.probability) - 1
        trees = np.unique(np.linspace(0, last, _TREES).astype(np.int64)).tolist()
        few.append((toy, drafting, tuple(trees[::_STEP])))
        others.append((toy, drafting, tuple(tree for n, tree in enumerate(trees) if n % _STEP)))
    found = {
        some: conditional_laws(subject.rule, drafts_of(some), array=subject.array)
        for some in (*few, *others)
        if some[2]
    }
    names = (name for name in verifiers.names() if all(accepts(name, drafting) for _, drafting in kinds))
    rule = identified(found, names, subject.facts.tolerance)
    return (rule, length_as(rule, sum(map(len, found.values())))) if rule else (None, None)
