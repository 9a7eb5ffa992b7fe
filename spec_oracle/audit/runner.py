"""Runs the checks of a subject and draws the verdict."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_oracle.audit import exact_checks, sampled_checks
from spec_oracle.audit.counterexample import describe, smallest_counterexample
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import (
    AuditReport,
    CheckResult,
    Counterexample,
    Evidence,
    Status,
    SubjectReport,
    SubjectVerdict,
)
from spec_oracle.audit.subjects import Subject, of_object, resolve_subject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum
from spec_oracle.statistics import DEFAULT_ALPHA, ErrorBudget
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, StatefulVerifier, drafting_of

DEFAULT_PATHS = 2


@dataclass(frozen=True)
class AuditOptions:
    """How to audit: the size of the toy instances, error rate, time and arithmetic.

    ``num_paths`` None stands for two paths, and for one where a subject takes only one. ``alpha`` is the
    false-alarm rate of the whole run; ``budget`` seconds per sampled subject; ``instances`` replace the
    built-in panel; ``counterexamples`` is the folder for the instances of lossy subjects, None to save
    nothing; ``shrink`` asks for the smallest counterexample.
    """

    vocab_size: int = 3
    draft_length: int = 3
    num_paths: int | None = None
    seed: int = 0
    alpha: float = DEFAULT_ALPHA
    budget: float = 60.0
    exact: bool = False
    array: str = "numpy"
    instances: Mapping[str, Instance] | None = None
    counterexamples: Path | None = None
    shrink: bool = True

    def instances_for(self, subject: Subject) -> Mapping[str, Instance]:
        """Return the instances on which to audit ``subject``."""
        if self.instances is not None:
            return self.instances
        return panel(self.vocab_size, self.draft_length, self.paths_for(subject), self.seed)

    def paths_for(self, subject: Subject) -> int:
        """Return how many draft paths ``subject`` is handed."""
        return 1 if subject.single_path else self.num_paths or DEFAULT_PATHS


def audit(
    *subjects: str | Subject | AnyVerifier | Callable[..., Any],
    options: AuditOptions | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """Audit subjects given by name, as verifiers, or as functions of the plain contract.

    Returns one report for all; raises `InvalidInputError` for a subject that does not exist. The run's alpha
    is shared by all subjects, so that the chance of any false alarm is at most alpha.
    """
    chosen = options or AuditOptions()
    resolved = [_as_subject(subject, chosen) for subject in subjects]
    reports = []
    for position, subject in enumerate(resolved, start=1):
        progress(f"[{position}/{len(resolved)}] {subject.name}")
        reports.append(audit_subject(subject, chosen, chosen.alpha / len(resolved)))
    return AuditReport(tuple(reports), chosen.seed, chosen.alpha)


def _as_subject(subject: Any, options: AuditOptions) -> Subject:
    if isinstance(subject, Subject):
        return subject
    if isinstance(subject, str):
        return resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    name = f"{getattr(subject, '__module__', '')}:{getattr(subject, '__qualname__', type(subject).__name__)}"
    return of_object(name, subject, array=options.array, num_paths=options.num_paths)


def audit_subject(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Run every check that the subject allows, at a false-alarm rate of ``alpha`` for all of them."""
    if subject.verifier is not None:
        return _audit_verifier(subject, subject.verifier, options, alpha)
    return _audit_sampled(subject, options, alpha)


def _audit_verifier(
    subject: Subject, verifier: AnyVerifier, options: AuditOptions, alpha: float
) -> SubjectReport:
    instances = options.instances_for(subject)
    arithmetic = exact_checks.Arithmetic(options.exact, options.array)
    findings = exact_checks.joint_findings(verifier, instances, arithmetic)
    small = panel(2, 2, next(iter(instances.values())).num_paths, options.seed)["good-draft"]
    calls, text = exact_checks.calls(verifier, small, arithmetic)
    first = next(iter(instances.values()))
    checks = (
        exact_checks.joint(findings, arithmetic),
        calls,
        exact_checks.batch(verifier, first, options.seed),
        exact_checks.inputs_kept(verifier, first, options.seed),
    )
    verdict = _verdict(checks, subject)
    counterexample = None
    if verdict is SubjectVerdict.LOSSY:

        def law_of(instance: Instance, *, exact: bool = options.exact) -> EmissionLaw:
            return emission_law(verifier, instance, exact=exact, array="numpy" if exact else options.array)

        counterexample = _counterexample(subject, findings.laws, law_of, options)
    laws = list(findings.laws.values())
    worst = max(findings.total_variation, float(text.total_variation) if text else 0.0)
    return SubjectReport(
        subject.name,
        verdict,
        Evidence.EXACT,
        checks,
        alpha,
        total_variation=worst,
        smallest_detectable_tv=arithmetic.tolerance,
        block_efficiency=_mean(float(law.block_efficiency) for law in laws),
        optimum=_mean(_optimum(verifier, law.instance) for law in laws),
        counterexample=counterexample,
        version=subject.version,
        notes=subject.notes,
    )


def _audit_sampled(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    instances = options.instances_for(subject)
    rate = ErrorBudget(alpha).rate_of("joint")
    findings = sampled_checks.joint(subject, instances, alpha=rate, budget=options.budget, seed=options.seed)
    samples = [sample for sample in findings.samples.values() if sample.draws]
    checks = (findings.check,)
    return SubjectReport(
        subject.name,
        _verdict(checks, subject),
        Evidence.STATISTICAL,
        checks,
        alpha,
        total_variation=findings.total_variation,
        smallest_detectable_tv=findings.smallest_detectable_tv,
        block_efficiency=_mean(sample.block_efficiency for sample in samples),
        optimum=_mean(float(multi_path_optimum(sample.instance).value) for sample in samples),
        version=subject.version,
        notes=subject.notes,
    )


def _verdict(checks: Iterable[CheckResult], subject: Subject) -> SubjectVerdict:
    statuses = [check.status for check in checks]
    if Status.FAILED in statuses:
        return SubjectVerdict.DECLARED_LOSSY if subject.declared_lossy else SubjectVerdict.LOSSY
    if Status.INCONCLUSIVE in statuses or Status.PASSED not in statuses:
        return SubjectVerdict.INCONCLUSIVE
    return SubjectVerdict.LOSSLESS


def _counterexample(
    subject: Subject,
    laws: Mapping[str, EmissionLaw],
    law_of: Callable[..., EmissionLaw],
    options: AuditOptions,
) -> Counterexample | None:
    """Return the smallest counterexample, or the worst instance of the audit where shrinking finds none."""
    instance = None
    if options.shrink and options.instances is None:
        instance = smallest_counterexample(law_of, max_paths=options.paths_for(subject))
    if instance is None:
        lossy = [law for law in laws.values() if float(law.total_variation) > 0]
        if not lossy:
            return None
        instance = max(lossy, key=lambda law: float(law.total_variation)).instance
    try:
        law = law_of(instance, exact=True)
    except (SpecOracleError, TypeError, ValueError, AttributeError):  # a verifier for floats only
        law = law_of(instance)
    return describe(subject.name, instance, law, options.counterexamples)


def _optimum(verifier: AnyVerifier, instance: Instance) -> float:
    """Return the most tokens per call under the same drafting; with carry-over for rules that have it."""
    best = block_transport_optimum if isinstance(verifier, StatefulVerifier) else multi_path_optimum
    return float(best(instance, drafting=drafting_of(verifier)).value)


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
