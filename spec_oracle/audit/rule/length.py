"""The check `length` of rules: the accepted length is distributed as by the declared rule.

A rule is declared by its attribute ``rule``, the name of a built-in one. Losslessness does not fix how much
is accepted. All outcomes are run on the same draft trees. Where no rule is declared, one is looked for that
emits the same after each of many trees: its accepted length is then the same.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, failed, not_asked, passed
from spec_oracle.audit.rule.draftings import DEPTH, draftings, one_of_each
from spec_oracle.audit.rule.subject import PREFIX, TreeSubject, VerifierSubject, names
from spec_oracle.audit.sampler import length as accepted
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.tree_emission import TreeTable, tree_conditional_laws, tree_emission_law
from spec_oracle.toy import Instance
from verifiers.trees import TreeDrafts

Laws: TypeAlias = Mapping[str, tuple[str, EmissionLaw]]
"""The kind of draft trees, and the output distribution, by the name of the instance and the kind."""

_FEW, _TREES = 8, 64
"""Draft trees of each kind after which rules are compared, first and at most: most rules differ soon."""


def length(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge whether the accepted length has the law of the declared rule."""
    if subject.name in verifiers.names():
        return not_asked("it is the reference for its rule")
    return accepted.length(subject, context)


def length_on_trees(subject: TreeSubject, context: Context) -> CheckResult:
    """Return what `joint` found of the accepted length."""
    if subject.name in names():
        return not_asked("it is the reference for its rule")
    return context.findings.length or not_asked("no rule is declared, and no built-in one emits the same")


def as_declared(subject: TreeSubject, laws: Laws) -> CheckResult | None:
    """Compare accepted lengths with those of the declared rule; None where none is declared."""
    if subject.facts.rule_at is None:
        return None
    said, gaps = subject.facts.rule_at(DEPTH), dict[str, float]()
    rule = verifiers.tree_rule(said.removeprefix(PREFIX))
    for name, (kind, law) in laws.items():
        drafting = draftings(subject.accepts, law.instance.draft_length)[kind]
        if drafting.siblings in rule.accepts:
            declared = tree_emission_law(rule, law.instance, drafting).accepted_length_pmf
            pairs = zip(law.accepted_length_pmf, declared, strict=True)
            gaps[name] = float(sum(abs(mine - theirs) for mine, theirs in pairs) / 2)
    name = max(gaps, key=lambda key: gaps[key])
    if gaps[name] > subject.facts.tolerance:
        where = f"total variation {gaps[name]:.3g} on instance {name!r}"
        detail = f"accepted length is not that of {said!r}: {where}"
        return failed(detail, how=How.PROVEN)
    return passed(f"the accepted length is distributed as that of {said!r}, as declared", how=How.PROVEN)


def identified(subject: TreeSubject, instances: Iterable[Instance]) -> tuple[str, CheckResult] | None:
    """Return the first built-in rule with the same law after each of many draft trees, and what that says.

    Rules are those that accept all siblings which the subject accepts. Raises the errors of
    `tree_conditional_laws`.
    """
    few, others = list[TreeDrafts](), list[TreeDrafts]()
    for instance in instances:
        for drafting in one_of_each(subject.accepts, instance.draft_length).values():
            table = TreeTable(instance.floats, drafting, NUMPY)
            last = len(table.law.probability) - 1
            trees = np.unique(np.linspace(0, last, _TREES).astype(np.int64))
            few.append(table.drafts(trees[::_FEW]))
            others.append(table.drafts(np.setdiff1d(trees, trees[::_FEW])))
    batches = [batch for batch in (*few, *others) if batch.batch]
    found = [tree_conditional_laws(subject.rule, batch, array=subject.array) for batch in batches]
    for name in verifiers.tree_rule_names():
        rule = verifiers.tree_rule(name)
        if subject.accepts <= rule.accepts and all(
            mine.distance(theirs) <= subject.facts.tolerance
            for batch, laws in zip(batches, found, strict=True)
            for mine, theirs in zip(laws, tree_conditional_laws(rule, batch), strict=True)
        ):
            count, full = sum(batch.batch for batch in batches), PREFIX + name
            detail = (
                f"emitted tokens have the distribution of rule {full!r} after each of {count} draft trees"
            )
            return full, passed(detail, how=How.PROVEN)
    return None
