"""Runs the checks of subjects, in two loops: over the subjects, and over the registry of checks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from spec_oracle.audit.checks import CHECKS, Check
from spec_oracle.audit.context import Context
from spec_oracle.audit.counterexample import counterexample
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.figures import figures_of
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.results import AuditReport, CheckResult, Evidence, Findings, Status, SubjectReport
from spec_oracle.audit.subjects.resolve import Subject, of_object, resolve_subject
from spec_oracle.audit.verdict import against_law, verdict_of, with_record
from spec_oracle.statistics import split
from spec_oracle.threads import one_torch_thread


def audit(*subjects: Any, options: AuditOptions | None = None) -> AuditReport:
    """Audit subjects given by name, as verifiers, as functions of the plain contract, or as `Subject`, here.

    Returns one report for all; raises `InvalidInputError` for a subject that does not exist. The run's alpha
    is shared by all subjects, so that the chance of any false alarm is at most alpha. Code under test runs in
    this process: `spec_oracle.audit.isolation` gives each subject one of its own.
    """
    chosen = options or AuditOptions()
    listed = [as_subject(subject, chosen) for subject in subjects]
    alpha = split(chosen.alpha, max(len(listed), 1))
    reports = tuple(audit_subject(subject, chosen, alpha) for subject in listed)
    return AuditReport(reports, chosen.seed, chosen.alpha)


def as_subject(subject: Any, options: AuditOptions) -> Subject:
    """Return the subject of a name or an object, or a `Subject`, with its record as configured."""
    if isinstance(subject, Subject):
        found = subject
    elif isinstance(subject, str):
        found = resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    else:
        attribute = getattr(subject, "__qualname__", type(subject).__name__)
        name = f"{getattr(subject, '__module__', '')}:{attribute}"
        found = of_object(name, subject, array=options.array, num_paths=options.num_paths)
    return replace(found, facts=found.facts.expecting(options.expected, options.skip))


def audit_subject(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Run every check that the subject allows, at a false-alarm rate of ``alpha`` for all of them."""
    with one_torch_thread():
        context = options.context(alpha)
        return report_on(subject, options, context, list(results(subject, options, context)))


def results(subject: Subject, options: AuditOptions, context: Context) -> Iterator[CheckResult]:
    """Yield the result of every check of the registry, one by one."""
    for check in CHECKS.values():
        yield result_of(check, subject, options, context)


def result_of(check: Check, subject: Subject, options: AuditOptions, context: Context) -> CheckResult:
    """Return the result of one check, unless it is left out; `joint` comes first, others use its findings."""
    reason = options.reason_to_skip(check.name)
    if reason and not check.why_not(subject):
        return CheckResult(check.name, Status.SKIPPED, reason)
    return with_record(check.outcome(subject, context), subject.facts)


class Audited(Protocol):
    """What a report says of a subject itself."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def facts(self) -> Facts:
        """What it declares."""
        ...

    @property
    def num_paths(self) -> int:
        """How many draft paths it is handed."""
        ...


def report_on(
    subject: Audited, options: AuditOptions, context: Context, checks: Sequence[CheckResult]
) -> SubjectReport:
    """Return the report on a subject: what was found of its law, the checks, and the verdict they come to."""
    facts, found = subject.facts, context.findings or Findings(checks[0], Evidence.NONE)
    against = against_law(checks)
    by_joint = not against or any(check.name == "joint" or check.alpha == 0 for check in against)
    measured = [found.total_variation, *(c.total_variation for c in against if c.alpha == 0)]
    return SubjectReport(
        subject.name,
        subject.kind,
        verdict_of(checks, facts),
        found.evidence if by_joint else Evidence.STATISTICAL,
        tuple(checks),
        context.alpha,
        scope=found.scope,
        total_variation=max((tv for tv in measured if tv is not None), default=None),
        smallest_detectable_tv=found.smallest_detectable_tv,
        figures=figures_of(subject, found),
        counterexample=counterexample(subject.name, found, options, subject.num_paths),
        version=facts.version,
        rule=facts.rule_at(options.draft_length) if facts.rule_at else found.rule,
        rule_identified=found.rule is not None,
        coverage=found.coverage,
        notes=(*facts.notes, *found.notes),
    )
