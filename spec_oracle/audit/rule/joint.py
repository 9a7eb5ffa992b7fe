"""The check `joint` of rules: the output distribution of one call, every random decision enumerated.

A rule takes each decision from a source; the source runs every outcome with its probability. It is run on
every instance after drafts of every kind: K paths, then every law of siblings and every shape of tree that it
accepts, small ones first, up to the first kind for which it is wrong.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.exact_comparison import (
    LawsAfter,
    accepts,
    declared_length,
    is_wrong,
    judge_laws,
    never_happened,
    scope_of,
    with_rule,
)
from spec_oracle.audit.results import CheckResult, Findings, Status, remarked
from spec_oracle.audit.rule.draftings import PATHS, Case
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.conditional import conditional_laws
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance

_DRAFTS = 64
"""After so many drafts of an instance a rule is compared with others, to find which it is."""


def joint(subject: RuleSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision; in rationals where the context is exact, then without time limit.

    Figures are those of the K paths, or of the first trees for which the rule is wrong.
    """
    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    end = math.inf if context.exact else time.process_time() + context.budget
    laws, too_slow, failure, shown = dict[Case, EmissionLaw](), list[str](), "", PATHS
    for kind, cases in groupby(subject.cases(context), key=lambda case: case.kind):
        for case, law in enumerated(subject, context, cases, end):
            if isinstance(law, EmissionLaw):
                laws[case] = law
            elif law:
                failure, shown = f"instance {case.name!r}: {law}", kind
            else:
                too_slow.append(case.name)
        if failure or any(is_wrong(law, facts) for case, law in laws.items() if case.kind == kind):
            shown = kind
            break
    kinds, toys = dict.fromkeys(case.kind for case in laws), len({case.toy for case in laws})
    found = judge_laws(
        {case.name: law for case, law in laws.items()},
        {case.name: case.instance for case in laws},
        replace(facts, rule_at=None),
        partial(law_on, subject, context, partial(_drafting, subject, shown)),
        how="enumerated",
        failure=failure,
        where=f"{toys} toy instances" + (f" x {len(kinds)} kinds of drafts" if len(kinds) > 1 else ""),
    )
    instances = dict.fromkeys(case.instance for case in laws)
    scope = [f"{scope_of('exact output distribution', instances)}: {'; '.join(kinds)}"]
    scope += [f"not run in this time: {'; '.join(too_slow)}; raise --budget"] if too_slow else []
    notes = [f"tokens per call and optimum are those of one kind of draft trees: {shown}"] * (shown != PATHS)
    found = remarked(found, scope=tuple(scope), notes=tuple(notes))
    if found.status is Status.PASSED and not facts.bound and (why := _open(laws, too_slow)):
        found = replace(found, status=Status.INCONCLUSIVE, detail=why)
    return replace(found, findings=_findings(subject, found.findings, laws, shown))


def enumerated(
    subject: RuleSubject, context: Context, cases: Iterable[Case], end: float
) -> Iterator[tuple[Case, EmissionLaw | str]]:
    """Yield the output distribution of every case; what is wrong where there is none; "" for want of time."""
    for case in cases:
        try:
            yield case, law_on(subject, context, lambda _: case.drafting, case.instance, case.dtype, end=end)  # noqa: B023
        except NotTracedError:
            yield case, ""
        except (DecisionError, VerdictError) as error:
            yield case, str(error)
            return


def _open(laws: Mapping[Case, EmissionLaw], too_slow: Iterable[str]) -> str:
    """Say what leaves the check open: no paths were run in time, no draft was ever accepted, or refused."""
    for what, is_paths in (("paths", True), ("draft trees", False)):
        some = [law for case, law in laws.items() if (case.kind == PATHS) is is_paths]
        if is_paths and not some:
            return f"not all outcomes could be run in this time: {'; '.join(too_slow)}; raise --budget"
        if some and (missing := never_happened(law.accepted_length_pmf for law in some)):
            return f"on these {what} it {missing}"
    return ""


def _findings(
    subject: RuleSubject, found: Findings, laws: Mapping[Case, EmissionLaw], shown: str
) -> Findings:
    """Add the figures of one kind of drafts; of a right rule which one it is, and how much it accepts."""
    found = replace(found, laws={case.name: law for case, law in laws.items() if case.kind == shown})
    if found.elsewhere is not None and shown != PATHS:
        best = partial(_optimum, partial(_drafting, subject, shown))
        return replace(found, elsewhere=replace(found.elsewhere, optimum_of=best))
    if found.worst is not None or subject.name in verifiers.names():
        return found
    # Rows of these differ everywhere; where p = q, or all of a residual is one token, rules are alike.
    telling = [case for case in laws if case.toy in {"flat", "peaked"}] or [*laws]
    if subject.facts.rule_at is not None:
        some = {case.name: case for case in laws if case.kind == PATHS or case in telling}
        drafted = {name: case.drafting for name, case in some.items()}
        on_these = {name: laws[case] for name, case in some.items()}
        length = declared_length(on_these, subject.facts, subject.facts.tolerance, drafted)
        return replace(found, length=length)
    one_of_each = [case for case in telling if case.kind in subject.one_of_each(case.instance)]
    try:
        after = [(case.instance, case.drafting, _after(subject, case)) for case in one_of_each]
    except (NotTracedError, DecisionError, VerdictError):  # not all of what comes after one draft can be run
        return found
    kinds = {case.kind: case.drafting for case in one_of_each}.values()
    names = [name for name in verifiers.names() if all(accepts(name, one) for one in kinds)]
    return with_rule(found, after, names)


def _after(subject: RuleSubject, case: Case) -> LawsAfter:
    """Return the law of what is emitted after some drafts of a case, by their numbers."""
    table = DraftTable(case.instance.floats, case.drafting, NUMPY)
    rows = np.unique(np.linspace(0, len(table.law.probability) - 1, _DRAFTS).astype(np.int64))
    with raising():
        laws = conditional_laws(subject.rule, table.drafts(rows), array=subject.array)
    return dict(zip(rows.tolist(), laws, strict=True))


def law_on(
    subject: RuleSubject,
    context: Context,
    drafting_on: Callable[[Instance], Drafting],
    instance: Instance,
    dtype: str = "float64",
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
            subject.rule,
            instance,
            drafting=drafting,
            exact=is_exact,
            array=array,
            dtype=dtype,
            merged=False,
            end=end,
        )


def _drafting(subject: RuleSubject, kind: str, instance: Instance) -> Drafting:
    """Return a kind of drafts; raises `InvalidInputError` where the instance is too short for it."""
    found = subject.draftings(instance)
    if kind not in found:
        raise InvalidInputError(f"instance: draft_length {instance.draft_length} is too short for {kind}")
    return found[kind]


def _optimum(drafting_on: Callable[[Instance], Drafting], instance: Instance) -> float:
    """Return the most tokens per call that any rule emits after such drafts."""
    return float(tree_optimum(instance, drafting_on(instance)).value)
