"""Runs the checks of subjects, in two loops: over the subjects, and over the registry of checks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.counterexample import counterexample
from spec_oracle.audit.evidence.findings import Findings
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.results import AuditReport, CheckResult, Evidence, Status, SubjectReport
from spec_oracle.audit.subjects.resolve import Subject, of_object, resolve_subject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.audit.verdict import against_law, verdict_of, with_record
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum
from spec_oracle.statistics import split
from spec_oracle.threads import one_torch_thread
from spec_oracle.toy import Instance
from verifiers import Drafting, StatefulVerifier


def audit(
    *subjects: Any,
    options: AuditOptions | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """Audit subjects given by name, as verifiers, as functions of the plain contract, or as `Subject`, here.

    Returns one report for all; raises `InvalidInputError` for a subject that does not exist. The run's alpha
    is shared by all subjects, so that the chance of any false alarm is at most alpha. Code under test runs in
    this process: `spec_oracle.audit.isolation` gives each subject one of its own.
    """
    chosen = options or AuditOptions()
    listed = [as_subject(subject, chosen) for subject in subjects]
    reports = []
    for subject in listed:
        reports.append(audit_subject(subject, chosen, split(chosen.alpha, len(listed))))
        progress(f"[{len(reports)}/{len(listed)}] {subject.name}: {reports[-1].verdict}")
    return AuditReport(tuple(reports), chosen.seed, chosen.alpha)


def as_subject(subject: Any, options: AuditOptions) -> Subject:
    """Return the subject that a name or an object stands for; a `Subject` is returned as it is."""
    if isinstance(subject, Subject):
        return subject
    if isinstance(subject, str):
        return resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    name = f"{getattr(subject, '__module__', '')}:{getattr(subject, '__qualname__', type(subject).__name__)}"
    return of_object(name, subject, array=options.array, num_paths=options.num_paths)


def audit_subject(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Run every check that the subject allows, at a false-alarm rate of ``alpha`` for all of them."""
    with one_torch_thread():
        bench = options.bench(alpha)
        return report_on(subject, options, bench, list(results(subject, options, bench)))


def results(subject: Subject, options: AuditOptions, bench: Bench) -> Iterator[CheckResult]:
    """Yield the result of every check of the registry, one by one."""
    for name, check in CHECKS.items():
        reason = options.reason_to_skip(name)
        if reason:
            yield CheckResult(name, Status.SKIPPED, reason)
        else:
            yield with_record(check.outcome(subject, bench), subject.facts)


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
    subject: Audited, options: AuditOptions, bench: Bench, checks: Sequence[CheckResult]
) -> SubjectReport:
    """Return the report on a subject: what was found of its law, the checks, and the verdict they come to."""
    facts, found = subject.facts, bench.findings or Findings(checks[0], Evidence.NONE)
    against = against_law(checks)
    by_joint = not against or any(check.name == "joint" or check.alpha == 0 for check in against)
    measured = [found.total_variation, *(c.total_variation for c in against if c.alpha == 0)]
    return SubjectReport(
        subject.name,
        subject.kind,
        verdict_of(checks, facts),
        found.evidence if by_joint else Evidence.STATISTICAL,
        tuple(checks),
        bench.alpha,
        scope=found.scope,
        total_variation=max((tv for tv in measured if tv is not None), default=None),
        smallest_detectable_tv=found.smallest_detectable_tv,
        block_efficiency=found.block_efficiency,
        optimum=_mean_optimum(subject, found.instances.values()),
        counterexample=counterexample(subject.name, found, options, subject.num_paths),
        version=facts.version,
        rule=facts.rule_at(options.draft_length) if facts.rule_at else found.rule,
        rule_identified=found.rule is not None,
        notes=(*facts.notes, *found.notes),
    )


def _mean_optimum(subject: Audited, instances: Iterable[Instance]) -> float | None:
    """Return the most tokens per call that any verifier reaches, mean over the instances."""
    carries = isinstance(subject, VerifierSubject) and isinstance(subject.verifier, StatefulVerifier)
    best = block_transport_optimum if carries else multi_path_optimum
    drafting = getattr(subject, "drafting", Drafting.INDEPENDENT)
    values = [_optimum(instance, best, drafting) for instance in instances]
    return sum(values) / len(values) if values else None


@lru_cache(maxsize=256)
def _optimum(instance: Instance, best: Callable[..., Any], drafting: Drafting) -> float:
    """Return the most tokens per call on one instance; subjects of one audit share it."""
    return float(best(instance, drafting=drafting).value)
