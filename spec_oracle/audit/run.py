"""Runs the checks of subjects, in two loops: over the subjects, and over the checks of a suite."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from spec_oracle.audit.checks import CHECKS, IN_TURN, Suite
from spec_oracle.audit.declared import Facts, OnRecord
from spec_oracle.audit.first_call import FirstCall
from spec_oracle.audit.options import AuditOptions, require_sizes
from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.unexecuted_lines import with_lines, with_notes
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.subjects import of_object, resolve_subject
from spec_oracle.audit.suite import SUITES
from spec_oracle.audit.verdict import report_on
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import split
from spec_oracle.threads import one_torch_thread, watched


def audit(*subjects: object, options: AuditOptions | None = None, suite: Suite | None = None) -> AuditReport:
    """Audit subjects given by name, as verifiers, samplers or engines, or as `Subject`, in this process.

    Returns one report for all; raises `InvalidInputError` for a subject that does not exist. ``suite`` has
    the checks, those of a subject's kind unless it is given. The run's alpha is shared by all subjects, so
    that the chance of any false alarm is at most alpha. Code under test runs in this process:
    `spec_oracle.audit.isolation` gives each subject one of its own.
    """
    chosen, started = options or AuditOptions(), time.perf_counter()
    listed = [as_subject(subject, chosen) for subject in subjects]
    alpha = split(chosen.alpha, max(len(listed), 1))
    reports = [audit_subject(subject, chosen, alpha, suite=suite) for subject in listed]
    return AuditReport(with_notes(reports), chosen.seed, chosen.alpha, seconds=time.perf_counter() - started)


def as_subject(subject: object, options: AuditOptions) -> Subject:
    """Return the subject of a name or an object, or a `Subject`, with its record as configured.

    Raises `InvalidInputError` for a name that leads nowhere, and for a third party's record without a size.

    What the user leaves out is on record like the failures that the user expects: it is out of date where
    the check would not apply.
    """
    found: Any
    if isinstance(subject, Subject):
        found = subject
    elif isinstance(subject, str):
        found = resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    else:
        attribute = getattr(subject, "__qualname__", type(subject).__name__)
        name = f"{getattr(subject, '__module__', '')}:{attribute}"
        found = of_object(name, subject, array=options.array, num_paths=options.num_paths)
    if options.device != "cpu":
        found = on_device(found, options.device)
    facts: Facts = found.facts
    if on_record := {
        *facts.failures.reasons,
        *(["joint"] if facts.declared_lossy and not facts.bound else []),
    }:
        require_sizes(on_record, facts.failures.at_most)
    reasons = {**facts.failures.reasons, **options.skip, **options.expected}
    at_most = {**facts.failures.at_most, **options.at_most}
    declared = replace(facts, failures=OnRecord(reasons, at_most, frozenset(options.expected)))
    ours: Subject = replace(found, facts=declared)
    return ours


def on_device(subject: Subject, device: str) -> Subject:
    """Return a sampler whose tensors and generator are on a device, where random numbers cannot be traced.

    Raises `InvalidInputError` for another kind of subject, and for a device that torch does not find.
    """
    import torch

    if not isinstance(subject, SamplerSubject) or subject.code.array != "torch":
        raise InvalidInputError(f"device: {subject.name} is no sampler that takes tensors")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(f"device: {device!r}: {str(error).splitlines()[0]}") from None
    return replace(subject, code=replace(subject.code, device=device), traceable=False, randomness=None)


def audit_subject(
    subject: Subject,
    options: AuditOptions,
    alpha: float,
    note: Callable[[CheckResult], None] = lambda _: None,
    suite: Suite | None = None,
) -> SubjectReport:
    """Run the checks of a suite, or of the subject's kind, at a false-alarm rate of ``alpha`` for all.

    Calls ``note(result)`` after each check.
    """
    results: dict[str, CheckResult] = {}
    context = replace(options.context(alpha), results=MappingProxyType(results))
    checks = SUITES[subject.kind] if suite is None else suite
    # The report has checks that the suite lacks where they are on record, or all that the user names.
    named = set(options.checks or ())
    asked = {*subject.facts.failures.reasons, *([] if named & checks.keys() else named)}
    first = FirstCall(subject, context, checks)
    with one_torch_thread(), watched():
        for check in IN_TURN if suite is None else CHECKS.values():
            if check.name not in checks and check.name not in asked:
                continue
            results[check.name] = first.result(check, options.reason_to_skip(check.name))
            note(results[check.name])
        in_order = tuple(results[name] for name in CHECKS if name in results)
        report = report_on(subject, options, alpha, in_order)
        if isinstance(subject, SamplerSubject) and not (options.again or first.leaves_out):
            return with_lines(report, subject, context)
        return report
