"""The check `joint` of rules: the output distribution of one call, every random decision enumerated.

A rule takes each decision from a source; the source runs every outcome with its probability. It is run on the
K paths of every instance, and then, if it accepts trees, on every kind of siblings and every shape of tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.exact_comparison import judge_laws
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import CheckResult, Elsewhere, Findings, LawResult, Measured, Remarks, Status
from spec_oracle.audit.rule.draftings import DEPTH, draftings
from spec_oracle.audit.rule.length import as_declared, identified
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import Siblings

LawOf = Callable[..., EmissionLaw]


class Tried(NamedTuple):
    """An instance by name, and a kind of trees on it."""

    name: str
    kind: str
    instance: Instance


def joint(subject: RuleSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision on every instance; in rationals where the context is exact.

    Figures are those of the K paths, or of the first trees for which the rule is wrong.
    """
    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    instances = instances_for(context, subject.num_paths)
    drafting = subject.drafting
    law_of = partial(law_on, subject, context, lambda _: drafting)
    laws, failure = _laws({name: (instance, law_of) for name, instance in instances.items()})
    on_paths = judge_laws(
        laws, instances, facts, law_of, how="enumerated", failure=failure, drafting=drafting
    )
    if on_paths.status is Status.FAILED or not subject.on_trees:
        return on_paths
    on_trees = _on_trees(subject, context, replace(facts, rule_at=None))
    for status in (Status.FAILED, Status.INCONCLUSIVE):
        for found in (on_paths, on_trees):
            if found.status is status:
                return found
    return _both(subject, context, on_paths, on_trees)


def _both(subject: RuleSubject, context: Context, on_paths: LawResult, on_trees: LawResult) -> LawResult:
    """Return what two results that passed come to: the figures of the paths, the larger total variation."""
    worst = max(found.total_variation or 0.0 for found in (on_paths.findings, on_trees.findings))
    findings = replace(on_paths.findings, total_variation=worst)
    rule, length = _length(subject, context, on_trees.findings)
    if findings.length is None or (length and length.status is Status.FAILED):
        findings = replace(findings, rule=rule, length=length)
    detail = f"{on_paths.detail}; {on_trees.detail}"
    remarks = replace(on_paths.remarks, scope=(*on_paths.remarks.scope, *on_trees.remarks.scope))
    measured = Measured(total_variation=worst)
    return replace(on_paths, detail=detail, measured=measured, remarks=remarks, findings=findings)


def _length(
    subject: RuleSubject, context: Context, on_trees: Findings
) -> tuple[str | None, CheckResult | None]:
    """Return the rule that emits the same on trees, if none is declared, and what is known of the length."""
    if subject.name in verifiers.names():
        return None, None
    cases = {key: case for key, case in _cases(subject, context).items() if key in on_trees.laws}
    # Rows of these differ everywhere; where p = q, or all of a residual is one token, rules are alike.
    some = {key: case for key, case in cases.items() if case.name in {"flat", "peaked"}} or cases
    drafted = (
        (key, _drafting(subject, case.kind, case.instance), on_trees.laws[key]) for key, case in some.items()
    )
    if declared := as_declared(subject, drafted):
        return None, declared
    toys = {case.instance.digest: case.instance for case in some.values()}
    try:
        with raising():
            return identified(subject, toys.values()) or (None, None)
    except (NotTracedError, DecisionError, VerdictError):  # not all of what comes after one tree can be run
        return None, None


def _on_trees(subject: RuleSubject, context: Context, facts: Facts) -> LawResult:
    """Run every outcome on every tree that the rule accepts."""
    cases = _cases(subject, context)
    tried = {
        key: (case.instance, partial(law_on, subject, context, partial(_drafting, subject, case.kind)))
        for key, case in cases.items()
    }
    laws, failure = _laws(tried)
    kinds = dict.fromkeys(case.kind for case in cases.values())
    of = {key: case.instance for key, case in cases.items()}
    where = f"{len({case.name for case in cases.values()})} toy instances x {len(kinds)} kinds of draft trees"
    law_of = next(iter(tried.values()))[1]
    found = judge_laws(laws, of, facts, law_of, how="enumerated", failure=failure, where=where)
    sizes = ", ".join(dict.fromkeys(f"V = {i.vocab_size}, L = {i.draft_length}" for i in of.values()))
    scope = f"one call: exact output distribution on {where} ({sizes}): {'; '.join(kinds)}"
    if not found.findings.worst:
        return replace(found, remarks=Remarks((scope,)))
    kind = cases[found.findings.worst].kind
    findings = replace(
        found.findings,
        laws={key: law for key, law in laws.items() if cases[key].kind == kind},
        elsewhere=Elsewhere(
            tried[found.findings.worst][1],
            optimum_of=lambda instance: float(
                tree_optimum(instance, _drafting(subject, kind, instance)).value
            ),
        ),
    )
    note = f"tokens per call and optimum are those of one kind of draft trees: {kind}"
    return replace(found, findings=findings, remarks=Remarks((scope,), (note,)))


def _cases(subject: RuleSubject, context: Context) -> dict[str, Tried]:
    """Return all instances, each with every kind of trees that the rule accepts, by name and kind."""
    depth = min(context.inputs.draft_length, DEPTH)
    instances = context.inputs.instances or panel(context.inputs.vocab_size, depth, 1, context.seed)
    return {
        f"{name}, {kind}": Tried(name, kind, instance)
        for name, instance in instances.items()
        for kind in draftings(subject.on_trees, instance.draft_length)
    }


def _laws(tried: Mapping[str, tuple[Instance, LawOf]]) -> tuple[dict[str, EmissionLaw], str]:
    """Return the output distributions by name, until one is none; and what is wrong with that."""
    laws = dict[str, EmissionLaw]()
    for name, (instance, law_of) in tried.items():
        try:
            laws[name] = law_of(instance)
        except (DecisionError, VerdictError) as error:
            return laws, f"instance {name!r}: {error}"
    return laws, ""


def law_on(
    subject: RuleSubject,
    context: Context,
    drafting_on: Callable[[Instance], Siblings | Drafting],
    instance: Instance,
    *,
    exact: bool | None = None,
) -> EmissionLaw:
    """Return the output distribution on an instance; ``exact`` as the context says, unless it is given."""
    is_exact = context.exact if exact is None else exact
    array = "numpy" if is_exact else subject.array
    with raising():
        drafting = drafting_on(instance)
        return emission_law(
            subject.rule, instance, drafting=drafting, exact=is_exact, array=array, merged=False
        )


def _drafting(subject: RuleSubject, kind: str, instance: Instance) -> Drafting:
    """Return a kind of trees; raises `InvalidInputError` where the instance is too short for it."""
    found = draftings(subject.on_trees, instance.draft_length)
    if kind not in found:
        raise InvalidInputError(f"instance: draft_length {instance.draft_length} is too short for {kind}")
    return found[kind]
