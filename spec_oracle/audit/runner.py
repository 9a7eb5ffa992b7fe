"""Runs the checks of a subject and draws the verdict."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from spec_oracle.audit import exact_checks, replayed, sampled_checks
from spec_oracle.audit.counterexample import describe, smallest_counterexample
from spec_oracle.audit.function_checks import run_function_checks
from spec_oracle.audit.intercepted import intercepted_law
from spec_oracle.audit.panel import panel
from spec_oracle.audit.plain import SubjectRaisedError
from spec_oracle.audit.results import (
    AuditReport,
    CheckResult,
    Counterexample,
    Evidence,
    Status,
    SubjectReport,
    SubjectVerdict,
)
from spec_oracle.audit.sampled_checks import CrossCheckError
from spec_oracle.audit.subjects import Subject, of_object, resolve_subject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.interception import CannotFollowError, TooManyBranchesError, UnrepeatableError
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum
from spec_oracle.parallel import side_by_side
from spec_oracle.statistics import CHECK_SHARES, DEFAULT_ALPHA, ErrorBudget
from spec_oracle.threads import one_torch_thread
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, Drafting, StatefulVerifier, drafting_of

DEFAULT_PATHS = 2

LAW_CHECKS = ("joint", "calls", "batch")
"""The checks that decide whether text has the target's law; others find other faults."""


@dataclass(frozen=True)
class AuditOptions:
    """How to audit: the size of the toy instances, error rate, time and arithmetic.

    ``num_paths`` None stands for two paths, and for one where a subject takes only one. ``alpha`` is the
    false-alarm rate of the whole run; ``budget`` seconds per sampled subject; ``instances`` replace the
    built-in panel; ``checks`` are those to run besides `joint`; ``counterexamples`` is the folder for the
    instances of lossy subjects, None to save nothing; ``shrink`` asks for the smallest counterexample;
    ``jobs`` processes audit subjects given by name.
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
    checks: Collection[str] = tuple(CHECK_SHARES)
    counterexamples: Path | None = None
    shrink: bool = True
    jobs: int = 1

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
    # Names travel between processes, functions do not; loaded here, all are known to exist before any is run.
    alone = chosen.jobs == 1 or len(subjects) == 1 or not all(isinstance(name, str) for name in subjects)
    listed = [_as_subject(subject, chosen) for subject in subjects] if alone else subjects
    work = partial(_audit_one, options=chosen, alpha=chosen.alpha / max(len(subjects), 1))
    reports = []
    for report in side_by_side(work, listed, 1 if alone else min(chosen.jobs, len(subjects))):
        reports.append(report)
        progress(f"[{len(reports)}/{len(subjects)}] {report.subject}: {report.verdict}")
    return AuditReport(tuple(reports), chosen.seed, chosen.alpha)


def _audit_one(subject: Any, options: AuditOptions, alpha: float) -> SubjectReport:
    return audit_subject(_as_subject(subject, options), options, alpha)


def _as_subject(subject: Any, options: AuditOptions) -> Subject:
    if isinstance(subject, Subject):
        return subject
    if isinstance(subject, str):
        return resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    name = f"{getattr(subject, '__module__', '')}:{getattr(subject, '__qualname__', type(subject).__name__)}"
    return of_object(name, subject, array=options.array, num_paths=options.num_paths)


def audit_subject(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Run every check that the subject allows, at a false-alarm rate of ``alpha`` for all of them."""
    with one_torch_thread():
        return _audit_subject(subject, options, alpha)


def _audit_subject(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    if subject.verifier is not None:
        return _audit_verifier(subject, subject.verifier, options, alpha)
    if subject.with_uniforms is not None or subject.keyed is not None:
        return _audit_replayed(subject, options, alpha)
    if not subject.follow:
        return _audit_sampled(subject, options, alpha)
    try:
        return _audit_intercepted(subject, options, alpha)
    except (CannotFollowError, TooManyBranchesError, UnrepeatableError, CrossCheckError) as error:
        reason = f"sampled, because interception failed: {error}"
    except SubjectRaisedError as error:
        check = CheckResult("joint", Status.INCONCLUSIVE, str(error))
        return SubjectReport(subject.name, SubjectVerdict.INCONCLUSIVE, Evidence.NONE, (check,), alpha)
    return _audit_sampled(replace(subject, notes=(*subject.notes, reason)), options, alpha)


def _audit_verifier(
    subject: Subject, verifier: AnyVerifier, options: AuditOptions, alpha: float
) -> SubjectReport:
    """Audit a verifier that reads its decisions from a source: everything is enumerated."""

    def law_of(instance: Instance, *, exact: bool = options.exact) -> EmissionLaw:
        return emission_law(verifier, instance, exact=exact, array="numpy" if exact else options.array)

    instances = options.instances_for(subject)
    arithmetic = exact_checks.Arithmetic(options.exact, options.array)
    findings = exact_checks.joint_findings(law_of, instances)
    first = next(iter(instances.values()))
    small = panel(2, 2, first.num_paths, options.seed)["good-draft"]
    checks, text = [exact_checks.joint(findings, arithmetic)], None
    if "calls" in options.checks:
        calls, text = exact_checks.calls(verifier, small, arithmetic)
        checks.append(calls)
    others = {
        "batch": partial(exact_checks.batch, verifier, first),
        "bad-input": partial(exact_checks.bad_input, verifier),
        "inputs-kept": partial(exact_checks.inputs_kept, verifier, first),
    }
    checks += [check(seed=options.seed) for name, check in others.items() if name in options.checks]
    best = block_transport_optimum if isinstance(verifier, StatefulVerifier) else multi_path_optimum
    optimum = _mean_optimum(instances, best, drafting_of(verifier))
    report = _exact_report(subject, options, alpha, tuple(checks), findings, law_of=law_of, optimum=optimum)
    worst = max(findings.total_variation, float(text.total_variation) if text else 0.0)
    return replace(report, total_variation=worst, smallest_detectable_tv=arithmetic.tolerance)


def _audit_intercepted(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Audit a plain function exactly, with its randomness enumerated; raises where that cannot be done."""
    instances = options.instances_for(subject)
    law_of = partial(intercepted_law, subject, known={})
    findings = exact_checks.joint_findings(law_of, instances)
    rate = ErrorBudget(alpha).rate_of("joint")
    for name, law in list(findings.laws.items())[:1]:
        sampled_checks.require_agreement(subject, name, law, alpha=rate, seed=options.seed)
    arithmetic = exact_checks.Arithmetic(rounding=subject.tolerance)
    joint = exact_checks.joint(findings, arithmetic, "intercepted and cross-checked")
    settled = []
    if subject.rule_at is not None and not subject.declared_lossy:
        settled.append(exact_checks.length(findings, subject.rule_at, subject.tolerance))
    checks = (joint, *_beyond_one_call(subject, options, alpha, joint, settled))
    report = _exact_report(
        subject, options, alpha, checks, findings, law_of=law_of, optimum=_mean_optimum(instances)
    )
    return replace(report, smallest_detectable_tv=subject.tolerance)


def _beyond_one_call(
    subject: Subject,
    options: AuditOptions,
    alpha: float,
    joint: CheckResult,
    settled: Sequence[CheckResult] = (),
) -> Iterator[CheckResult]:
    """Yield the checks of a plain function besides ``joint``; only ``settled`` ones on instances of a user.

    These were made with better evidence than draws, and take the places of the sampled checks.
    """
    better = {check.name: check for check in settled}
    if options.instances is not None:
        yield from settled
        return
    results = run_function_checks(
        subject,
        ErrorBudget(alpha),
        wanted=[name for name in options.checks if name not in better],
        num_paths=options.paths_for(subject),
        is_law_kept=joint.status is not Status.FAILED and not subject.declared_lossy,
        seconds=options.budget,
        seed=options.seed,
    )
    for name, result in results.items():
        check = better.get(name, result)
        yield replace(check, known=subject.known.get(name, "")) if check.status is Status.FAILED else check


def _exact_report(
    subject: Subject,
    options: AuditOptions,
    alpha: float,
    checks: tuple[CheckResult, ...],
    findings: exact_checks.JointFindings,
    *,
    law_of: Callable[..., EmissionLaw],
    optimum: float | None,
) -> SubjectReport:
    verdict = _verdict(checks, subject)
    laws = list(findings.laws.values())
    lossy = verdict in (SubjectVerdict.LOSSY, SubjectVerdict.DECLARED_LOSSY)
    proven = all(check.alpha == 0 for check in _against(checks)) or verdict is SubjectVerdict.LOSSLESS
    return _report(
        subject,
        options,
        alpha,
        checks,
        Evidence.EXACT if proven else Evidence.STATISTICAL,
        total_variation=findings.total_variation,
        block_efficiency=_mean(float(law.block_efficiency) for law in laws),
        optimum=optimum,
        counterexample=_counterexample(subject, findings.laws, law_of, options) if lossy and proven else None,
    )


def _report(
    subject: Subject,
    options: AuditOptions,
    alpha: float,
    checks: tuple[CheckResult, ...],
    evidence: Evidence,
    **found: Any,
) -> SubjectReport:
    """Return the report on a subject: its verdict by ``checks``, what is known of it, what was ``found``."""
    rule = subject.rule_at(options.draft_length) if subject.rule_at else None
    return SubjectReport(
        subject.name,
        _verdict(checks, subject),
        evidence,
        checks,
        alpha,
        version=subject.version,
        rule=rule,
        notes=subject.notes,
        **found,
    )


def _audit_replayed(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Audit code whose uniforms are known: integrated where it is fast enough, else row by row."""
    instances = options.instances_for(subject)
    judged = replayed.audited(
        subject,
        instances,
        wanted=options.checks,
        alpha=ErrorBudget(alpha),
        budget=options.budget,
        seed=options.seed,
    )
    if judged is None:
        reason = "sampled: too slow to integrate, and it uses its uniforms otherwise than the built-in rules"
        return _audit_sampled(replace(subject, notes=(*subject.notes, reason)), options, alpha)
    joint, *settled = judged.checks
    checks = (joint, *_beyond_one_call(subject, options, alpha, joint, settled))
    by_other_checks = joint.status is not Status.FAILED and _against(checks)
    worst = judged.worst
    return _report(
        subject,
        options,
        alpha,
        checks,
        Evidence.STATISTICAL if by_other_checks else Evidence.REPLAYED,
        total_variation=judged.total_variation,
        smallest_detectable_tv=judged.smallest_detectable_tv,
        block_efficiency=judged.block_efficiency,
        optimum=_mean_optimum(instances),
        counterexample=None
        if worst is None
        else describe(subject.name, instances[worst], judged.laws[worst], options.counterexamples),
    )


def _audit_sampled(subject: Subject, options: AuditOptions, alpha: float) -> SubjectReport:
    """Audit a plain function by draws."""
    instances = options.instances_for(subject)
    rate = ErrorBudget(alpha).rate_of("joint")
    findings = sampled_checks.joint(subject, instances, alpha=rate, budget=options.budget, seed=options.seed)
    samples = [sample for sample in findings.samples.values() if sample.draws]
    checks = (findings.check, *_beyond_one_call(subject, options, alpha, findings.check))
    worst = findings.worst
    return _report(
        subject,
        options,
        alpha,
        checks,
        Evidence.STATISTICAL,
        total_variation=findings.total_variation,
        smallest_detectable_tv=findings.smallest_detectable_tv,
        block_efficiency=_mean(sample.block_efficiency for sample in samples),
        optimum=_mean_optimum(instances),
        counterexample=None
        if worst is None
        else describe(subject.name, instances[worst], findings.samples[worst], options.counterexamples),
    )


def _against(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the failures that speak against the law: of one call, over calls, or beside other requests."""
    return [check for check in checks if check.name in LAW_CHECKS and check.status is Status.FAILED]


def _verdict(checks: Sequence[CheckResult], subject: Subject) -> SubjectVerdict:
    if _against(checks):
        return SubjectVerdict.DECLARED_LOSSY if subject.declared_lossy else SubjectVerdict.LOSSY
    # Another check that could not be settled is told, but what was found of one call stands without it.
    is_law_kept = any(check.name == "joint" and check.status is Status.PASSED for check in checks)
    return SubjectVerdict.LOSSLESS if is_law_kept else SubjectVerdict.INCONCLUSIVE


def _counterexample(
    subject: Subject,
    laws: Mapping[str, EmissionLaw],
    law_of: Callable[..., EmissionLaw],
    options: AuditOptions,
) -> Counterexample | None:
    """Return the smallest counterexample, or the worst instance of the audit where shrinking finds none."""
    instance = None
    if options.shrink and options.instances is None:
        instance = smallest_counterexample(
            law_of, max_paths=options.paths_for(subject), tolerance=subject.tolerance
        )
    if instance is None:
        lossy = [law for law in laws.values() if float(law.total_variation) > 0]
        if not lossy:
            return None
        instance = max(lossy, key=lambda law: float(law.total_variation)).instance
    try:
        law = law_of(instance, exact=True)
    except (SpecOracleError, TypeError, ValueError, AttributeError):  # a subject for floats only
        law = law_of(instance)
    return describe(subject.name, instance, law, options.counterexamples)


def _mean_optimum(
    instances: Mapping[str, Instance],
    best: Callable[..., Any] = multi_path_optimum,
    drafting: Drafting = Drafting.INDEPENDENT,
) -> float | None:
    return _mean(_optimum(instance, best, drafting) for instance in instances.values())


@lru_cache(maxsize=256)
def _optimum(instance: Instance, best: Callable[..., Any], drafting: Drafting) -> float:
    """Return the most tokens per call on one instance; subjects of one audit share it."""
    return float(best(instance, drafting=drafting).value)


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
