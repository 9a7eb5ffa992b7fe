"""The check `joint` of rules: the output distribution of one call, every random decision enumerated.

A rule takes each decision from a source; the source runs every outcome with its probability. It is run on
every instance after drafts of every kind: K paths, then every law of siblings and every shape of tree that it
accepts, the smallest first, up to the first kind for which it is wrong.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.exact_comparison import is_wrong, judge_laws, never_happened, scope_of
from spec_oracle.audit.results import CheckResult, LawResult, Status, remarked
from spec_oracle.audit.rule.draftings import PATHS, Case
from spec_oracle.audit.rule.length import rule_and_length
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance


class Enumerated(NamedTuple):
    """The output distributions by name of the case, and the cases that were run.

    ``kind`` is the one for which the rule is wrong, or K paths; ``failure`` says why there is no distribution
    on the next case; ``too_slow`` are kinds that the time did not suffice for.
    """

    cases: Sequence[Case]
    laws: Mapping[str, EmissionLaw]
    kind: str
    failure: str
    too_slow: Sequence[str]


def joint(subject: RuleSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision; in rationals, and without a time limit, where the context is exact.

    Figures are those of the K paths, or of the first trees for which the rule is wrong.
    """
    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    run = _enumerated(subject, context, facts)
    kinds = [*dict.fromkeys(case.kind for case in run.cases)]
    toys = f"{len({case.toy for case in run.cases})} toy instances"
    found = judge_laws(
        run.laws,
        {case.name: case.instance for case in run.cases},
        replace(facts, rule_at=None),
        _law_of(subject, context, run.kind),
        how="enumerated",
        failure=run.failure,
        where=f"{toys} x {len(kinds)} kinds of drafts" if len(kinds) > 1 else toys,
    )
    given = dict.fromkeys(case.instance for case in run.cases)
    scope = [f"{scope_of('exact output distribution', given)}: {'; '.join(kinds)}"]
    if run.too_slow:
        scope.append(f"not run in this time: {'; '.join(run.too_slow)}; raise --budget")
    return _with_findings(subject, remarked(found, scope=tuple(scope)), run)


def _enumerated(subject: RuleSubject, context: Context, facts: Facts) -> Enumerated:
    """Run one kind of drafts after the other, until the rule is wrong, or time is over."""
    end = math.inf if context.exact else time.process_time() + context.budget
    cases, laws, too_slow = subject.cases(context), dict[str, EmissionLaw](), list[str]()
    for kind, of_kind in groupby(cases, key=lambda case: case.kind):
        law_of, failure = _law_of(subject, context, kind), ""
        of_this = dict[str, EmissionLaw]()
        for case in of_kind:
            try:
                of_this[case.name] = law_of(case.instance, end=end)
            except NotTracedError:
                too_slow.append(kind)
                break
            except (DecisionError, VerdictError) as error:
                failure = f"instance {case.name!r}: {error}"
                break
        laws |= of_this
        if failure or any(is_wrong(law, facts) for law in of_this.values()):
            break
    else:
        kind, failure = PATHS, ""
    return Enumerated([case for case in cases if case.name in laws], laws, kind, failure, too_slow)


def _with_findings(subject: RuleSubject, found: LawResult, run: Enumerated) -> LawResult:
    """Add the figures of one kind of drafts, the rule, and what leaves the check open."""
    shown = {case.name: run.laws[case.name] for case in run.cases if case.kind == run.kind}
    findings = replace(found.findings, laws=shown)
    if findings.worst is not None and run.kind != PATHS:
        best = partial(_optimum, subject, run.kind)
        findings = replace(findings, elsewhere=replace(findings.elsewhere, optimum_of=best))
        note = f"tokens per call and optimum are those of one kind of draft trees: {run.kind}"
        found = remarked(found, notes=(note,))
    if found.status is Status.PASSED and not subject.facts.bound:
        if why := _open(run):
            found = replace(found, status=Status.INCONCLUSIVE, detail=why)
        rule, length = rule_and_length(subject, run.cases, run.laws)
        findings = replace(findings, rule=rule, length=length)
    return replace(found, findings=findings)


def _open(run: Enumerated) -> str:
    """Say what leaves the check open: paths that were not run, or that no draft was ever accepted or refused."""
    if PATHS in run.too_slow:
        return f"not all outcomes could be run in this time: {'; '.join(run.too_slow)}; raise --budget"
    for what, is_paths in (("paths", True), ("draft trees", False)):
        some = [run.laws[case.name] for case in run.cases if (case.kind == PATHS) is is_paths]
        missing = never_happened(law.accepted_length_pmf for law in some) if some else ""
        if missing:
            return f"on these {what} it {missing}"
    return ""


def _law_of(subject: RuleSubject, context: Context, kind: str) -> Callable[..., EmissionLaw]:
    """Return what finds the output distribution on any instance after drafts of one kind."""
    return partial(law_on, subject, context, partial(_drafting, subject, kind))


def law_on(
    subject: RuleSubject,
    context: Context,
    drafting_on: Callable[[Instance], Drafting],
    instance: Instance,
    *,
    exact: bool | None = None,
    end: float = math.inf,
) -> EmissionLaw:
    """Return the output distribution on an instance; ``exact`` as the context says, unless it is given."""
    is_exact = context.exact if exact is None else exact
    array = "numpy" if is_exact else subject.array
    with raising():
        drafting = drafting_on(instance)
        return emission_law(
            subject.rule, instance, drafting=drafting, exact=is_exact, array=array, merged=False, end=end
        )


def _drafting(subject: RuleSubject, kind: str, instance: Instance) -> Drafting:
    """Return a kind of drafts; raises `InvalidInputError` where the instance is too short for it."""
    found = subject.draftings(instance)
    if kind not in found:
        raise InvalidInputError(f"instance: draft_length {instance.draft_length} is too short for {kind}")
    return found[kind]


def _optimum(subject: RuleSubject, kind: str, instance: Instance) -> float:
    """Return the most tokens per call that any rule emits after drafts of one kind."""
    return float(tree_optimum(instance, _drafting(subject, kind, instance)).value)
