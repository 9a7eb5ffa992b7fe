"""The check `joint` of rules: the output distribution of one call, every random decision enumerated.

A rule takes each decision from a source; the source runs every outcome with its probability. It is run on
every instance after drafts of every kind: K paths, then trees with every kind of siblings and every shape
that it accepts, small ones first, up to the first kind for which it is wrong.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import verifiers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.draftings import (
    DEPTH,
    FIGURES_OF_FIRST_CALL,
    FIGURES_OF_TREES,
    PATHS,
    ToyDrafts,
    cases_on_trees,
)
from spec_oracle.audit.exact_comparison import is_wrong, judge_laws, never_happened, scope_of
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import CheckResult, Remarks, Status
from spec_oracle.audit.rule.length import with_length
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance

PATHS_SHARE: Final = 0.5  # Share of the time that K paths may take, where trees come after them.


def joint(subject: RuleSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision; in rationals where the context is exact, then without time limit.

    Figures are those of the K paths, or of the first trees for which the rule is wrong.
    """
    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    laws, shown, failure, too_slow = _until_wrong(subject, context, facts)
    kinds, toys = dict.fromkeys(case.kind for case in laws), len({case.toy for case in laws})
    instances = {case.name: case.instance for case in laws}

    def law_of(instance: Instance, *, exact: bool | None = None) -> EmissionLaw:
        return law_on(subject, context, instance, subject.drafts_of(shown, instance), exact=exact)

    def optimum_of(instance: Instance) -> float:
        return float(tree_optimum(instance, subject.drafts_of(shown, instance)).value)

    found = judge_laws(
        {case.name: law for case, law in laws.items()},
        instances,
        replace(facts, rule_at=None),
        law_of,
        how="enumerated",
        failure=failure,
        where=f"{toys} toy instances" + (f" x {len(kinds)} kinds of drafts" if len(kinds) > 1 else ""),
    )
    scope = [
        f"{scope_of('exact output distribution', dict.fromkeys(instances.values()))}: {'; '.join(kinds)}"
    ]
    scope += [f"not run in this time: {'; '.join(too_slow)}; raise --budget"] if too_slow else []
    notes = [FIGURES_OF_TREES.format(shown)] * (shown != PATHS)
    notes += [FIGURES_OF_FIRST_CALL] * subject.carries_state
    do = "--budget" if too_slow else ""
    of_kind = {case.name: law for case, law in laws.items() if case.kind == shown}
    findings, remarks = replace(found.findings, laws=of_kind), Remarks(tuple(scope), tuple(notes), do=do)
    if shown != PATHS and findings.elsewhere is not None:
        findings = replace(findings, elsewhere=replace(findings.elsewhere, optimum_of=optimum_of))
    if found.status is Status.PASSED and subject.name not in verifiers.names():
        findings = with_length(subject, findings, laws)
    for what, is_paths in (("draft trees", False), ("paths", True)):
        some = [law.accepted_length_pmf for case, law in laws.items() if (case.kind == PATHS) is is_paths]
        missing = never_happened(some) if some else "was not run in this time" * is_paths
        if missing and found.status is not Status.FAILED and not facts.bound:
            found = replace(found, status=Status.INCONCLUSIVE, detail=f"on these {what} it {missing}")
    return replace(found, findings=findings, remarks=remarks)


def _until_wrong(
    subject: RuleSubject, context: Context, facts: Facts
) -> tuple[Mapping[ToyDrafts, EmissionLaw], str, str, Sequence[str]]:
    """Run kind after kind, until the rule is wrong: return the output distributions of what was run.

    Then the kind for which it is wrong, or K paths; what is wrong where there is no distribution; and which
    cases the time did not suffice for.
    """
    seconds = math.inf if context.exact else max(context.budget, effort.RULE_LEAST_SECONDS)
    started = time.process_time()
    laws, too_slow, failure = dict[ToyDrafts, EmissionLaw](), list[str](), ""
    for kind, cases in groupby(cases_of(subject, context), key=lambda case: case.kind):
        share = PATHS_SHARE if kind == PATHS and subject.on_trees else 1.0
        for case in cases:
            try:
                law = enumerated(subject, context, case, started + share * seconds)
            except NotTracedError:
                too_slow.append(case.name)
                continue
            if not isinstance(law, EmissionLaw):
                failure = f"instance {case.name!r}: {law}"
                break
            laws[case] = law
        if failure or any(is_wrong(law, facts) for case, law in laws.items() if case.kind == kind):
            return laws, kind, failure, too_slow
    return laws, PATHS, "", too_slow


def cases_of(subject: RuleSubject, context: Context) -> Iterator[ToyDrafts]:
    """Yield what one call is run on: K paths of every instance, then trees, kind after kind."""
    inputs, depth = context.inputs, min(context.inputs.draft_length, DEPTH)
    for toy, instance in instances_for(context, subject.num_paths).items():
        yield ToyDrafts(toy, toy, PATHS, instance, subject.paths(instance))
    small = inputs.instances or panel(inputs.vocab_size, depth, 1, context.seed)
    yield from cases_on_trees(subject.on_trees, small)


def enumerated(
    subject: RuleSubject, context: Context, case: ToyDrafts, end: float = math.inf
) -> EmissionLaw | str:
    """Return the output distribution of a case, or what is wrong where there is none.

    Raises `NotTracedError` where not all outcomes can be run up to the processor time ``end``.
    """
    try:
        return law_on(subject, context, case.instance, case.drafting, case.dtype, end=end)
    except (DecisionError, VerdictError) as error:
        return str(error)


def law_on(
    subject: RuleSubject,
    context: Context,
    instance: Instance,
    drafting: Drafting,
    dtype: str = "float64",
    *,
    exact: bool | None = None,
    end: float = math.inf,
) -> EmissionLaw:
    """Return the output distribution on an instance; ``exact`` as the context says, unless it is given."""
    is_exact = context.exact if exact is None else exact
    array = "numpy" if is_exact else subject.array
    with raising():
        return emission_law(
            subject.rule,
            instance,
            drafting=drafting,
            exact=is_exact,
            array=array,
            dtype=dtype,
            merged=False,
            end=end,
        )
