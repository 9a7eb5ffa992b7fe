"""The check `length` of rules: the accepted length is distributed as by the declared rule.

A rule is declared by its attribute ``rule``, the name of a built-in one. Losslessness does not fix how much
is accepted. All outcomes are run on the same drafts. Where no rule is declared for trees, one is looked for
that emits the same after each of many trees: its accepted length is then the same.
"""

from collections.abc import Iterable

import numpy as np

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, Law, failed, not_asked, passed
from spec_oracle.audit.rule.draftings import DEPTH, one_of_each
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.exact import emission_law
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.conditional import conditional_laws
from spec_oracle.exact.drafting import Drafting
from spec_oracle.toy import Instance
from verifiers import Drafts, accepts_of, traits_of

_FEW, _TREES = 8, 64
"""Draft trees of each kind after which rules are compared, first and at most: most rules differ soon."""


def length(subject: RuleSubject, context: Context) -> CheckResult:
    """Return what `joint` found of the accepted length."""
    if subject.name in verifiers.names():
        return not_asked("it is the reference for its rule")
    return context.findings.length or not_asked("no rule is declared")


def as_declared(subject: RuleSubject, laws: Iterable[tuple[str, Drafting, Law]]) -> CheckResult | None:
    """Compare accepted lengths with those of the declared rule, on trees that it accepts; None without one.

    ``laws``: a name, how the trees were drafted, and the output distribution.
    """
    if subject.facts.rule_at is None:
        return None
    said, gaps = subject.facts.rule_at(DEPTH), dict[str, float]()
    rule = verifiers.get(said)
    for name, drafting, law in laws:
        if drafting.siblings in accepts_of(rule) and not traits_of(rule).paths_only:
            declared = emission_law(rule, law.instance, drafting=drafting).accepted_length_pmf
            pairs = zip(law.accepted_length_pmf, declared, strict=True)
            gaps[name] = float(sum(abs(mine - theirs) for mine, theirs in pairs) / 2)
    name = max(gaps, key=lambda key: gaps[key], default="")
    if gaps and gaps[name] > subject.facts.tolerance:
        where = f"total variation {gaps[name]:.3g} on instance {name!r}"
        return failed(f"accepted length is not that of {said!r}: {where}", how=How.PROVEN)
    return passed(f"the accepted length is distributed as that of {said!r}, as declared", how=How.PROVEN)


def identified(subject: RuleSubject, instances: Iterable[Instance]) -> tuple[str, CheckResult] | None:
    """Return the first built-in rule with the same law after each of many draft trees, and what that says.

    Rules are those that accept all siblings which the subject accepts. Raises the errors of
    `conditional_laws`.
    """
    few, others = list[Drafts](), list[Drafts]()
    for instance in instances:
        for drafting in one_of_each(subject.on_trees, instance.draft_length).values():
            table = DraftTable(instance.floats, drafting, NUMPY)
            last = len(table.law.probability) - 1
            trees = np.unique(np.linspace(0, last, _TREES).astype(np.int64))
            few.append(table.drafts(trees[::_FEW]))
            others.append(table.drafts(np.setdiff1d(trees, trees[::_FEW])))
    batches = [batch for batch in (*few, *others) if batch.batch]
    found = [conditional_laws(subject.rule, batch, array=subject.array) for batch in batches]
    for name in verifiers.names():
        rule = verifiers.get(name)
        fits = subject.on_trees <= accepts_of(rule) and not traits_of(rule).paths_only
        if fits and all(
            mine.distance(theirs) <= subject.facts.tolerance
            for batch, laws in zip(batches, found, strict=True)
            for mine, theirs in zip(laws, conditional_laws(rule, batch), strict=True)
        ):
            count = sum(batch.batch for batch in batches)
            detail = (
                f"emitted tokens have the distribution of rule {name!r} after each of {count} draft trees"
            )
            return name, passed(detail, how=How.PROVEN)
    return None
