"""The check `joint` of rules: the output distribution of one call, every random decision enumerated.

A rule takes each decision from a source; the source runs every outcome with its probability. Rules for draft
trees are run on every instance, for every kind of siblings that they accept and every shape of tree, on all
draft trees.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spec_oracle.audit.context import Context
from spec_oracle.audit.exact_comparison import judge_laws
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import CheckResult, Elsewhere, Findings, Status, remarked, with_findings
from spec_oracle.audit.rule.draftings import DEPTH, draftings
from spec_oracle.audit.rule.length import Laws, as_declared, identified
from spec_oracle.audit.rule.subject import TreeSubject, VerifierSubject, names
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.tree_emission import tree_emission_law
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance


def joint(subject: VerifierSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision on every instance; in rationals where the context is exact."""

    def law_of(instance: Instance, *, exact: bool = context.exact) -> EmissionLaw:
        with raising():
            array = "numpy" if exact else context.array
            return emission_law(subject.verifier, instance, exact=exact, array=array, merged=False)

    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    instances, failure = instances_for(context, subject.num_paths), ""
    laws: dict[str, EmissionLaw] = {}
    try:
        for name, instance in instances.items():
            laws[name] = law_of(instance)
    except (DecisionError, VerdictError) as error:
        failure = f"instance {[*instances][len(laws)]!r}: {error}"
    return judge_laws(laws, instances, facts, law_of, how="enumerated", failure=failure)


def joint_on_trees(subject: TreeSubject, context: Context) -> CheckResult:
    """Run every outcome on every tree; figures are those of the first drafting, or of the first wrong one."""
    depth = min(context.inputs.draft_length, DEPTH)
    instances = context.inputs.instances or panel(context.inputs.vocab_size, depth, 1, context.seed)
    facts = replace(subject.facts, rule_at=None)  # the rules of `judge_laws` are for paths
    facts = replace(facts, tolerance=0.0) if context.exact else facts
    laws: dict[str, EmissionLaw] = {}
    tried, failure, kinds = dict[str, tuple[str, Instance]](), "", dict[str, None]()
    try:
        for name, instance in instances.items():
            for kind in draftings(subject.accepts, instance.draft_length):
                kinds[kind], tried[f"{name}, {kind}"] = None, (kind, instance)
                laws[f"{name}, {kind}"] = law_on(subject, context, instance, kind)
    except (DecisionError, VerdictError) as error:
        failure = f"instance {[*tried][-1]!r}: {error}"
    of = {key: instance for key, (_, instance) in tried.items()}
    where = f"{len(instances)} toy instances x {len(kinds)} kinds of draft trees"
    result = judge_laws(laws, of, facts, law_on, how="enumerated", failure=failure, where=where)
    findings = result.findings
    if not laws:
        return result
    if result.status is not Status.FAILED:
        by_kind = {key: (tried[key][0], law) for key, law in laws.items()}
        findings = _with_length(subject, instances, findings, by_kind)
    kind = tried[findings.worst][0] if findings.worst else next(iter(kinds))
    findings = replace(
        findings,
        laws={key: law for key, law in laws.items() if tried[key][0] == kind},
        elsewhere=Elsewhere(
            lambda instance, **how: law_on(subject, context, instance, kind, **how),
            optimum_of=lambda instance: float(
                tree_optimum(instance, _drafting(subject, instance, kind)).value
            ),
        ),
    )
    sizes = ", ".join(dict.fromkeys(f"V = {i.vocab_size}, L = {i.draft_length}" for i in instances.values()))
    scope = (f"one call: exact output distribution on {where} ({sizes}): {'; '.join(kinds)}",)
    notes = (f"tokens per call and optimum are those of one kind of draft trees: {kind}",)
    return with_findings(remarked(result, scope=scope, notes=notes), findings)


def _with_length(
    subject: TreeSubject, instances: Mapping[str, Instance], findings: Findings, laws: Laws
) -> Findings:
    """Add what the output distributions say of the accepted length, of a rule that is not built in."""
    if subject.name in names():
        return findings
    # Rows of these differ everywhere; where p = q, or all of a residual is one token, rules are alike.
    chosen = [instances[name] for name in ("flat", "peaked") if name in instances] or [*instances.values()]
    some = {key: of for key, of in laws.items() if any(of[1].instance.digest == one.digest for one in chosen)}
    if declared := as_declared(subject, some):
        return replace(findings, length=declared)
    try:
        with raising():
            rule, length = identified(subject, chosen) or (None, None)
    except (NotTracedError, DecisionError, VerdictError):  # not all of what comes after one tree can be run
        return findings
    return replace(findings, rule=rule, length=length)


def law_on(
    subject: TreeSubject, context: Context, instance: Instance, kind: str, *, exact: bool | None = None
) -> EmissionLaw:
    """Return the output distribution on an instance; ``exact`` as the context says, unless it is given.

    Raises `InvalidInputError` where the instance is too short for this ``kind`` of trees.
    """
    is_exact = context.exact if exact is None else exact
    drafting, how = _drafting(subject, instance, kind), {"array": "numpy" if is_exact else subject.array}
    with raising():
        return tree_emission_law(subject.rule, instance, drafting, exact=is_exact, **how)


def _drafting(subject: TreeSubject, instance: Instance, kind: str) -> Any:
    found = draftings(subject.accepts, instance.draft_length)
    if kind not in found:
        raise InvalidInputError(f"instance: draft_length {instance.draft_length} is too short for {kind}")
    return found[kind]
