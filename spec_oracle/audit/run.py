"""Runs the checks of subjects, in two loops: over the subjects, and over the table of checks."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from spec_oracle.audit.first_call import FirstCall
from spec_oracle.audit.options import AuditOptions, require_sizes
from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.unrun import lines_run, with_notes
from spec_oracle.audit.subjects import Subject, of_object, resolve_subject
from spec_oracle.audit.table import CHECKS
from spec_oracle.audit.verdict import report_on
from spec_oracle.statistics import split
from spec_oracle.threads import one_torch_thread, watched


def audit(*subjects: Any, options: AuditOptions | None = None) -> AuditReport:
    """Audit subjects given by name, as verifiers, samplers or engines, or as `Subject`, in this process.

    Returns one report for all; raises `InvalidInputError` for a subject that does not exist. The run's alpha
    is shared by all subjects, so that the chance of any false alarm is at most alpha. Code under test runs in
    this process: `spec_oracle.audit.isolation` gives each subject one of its own.
    """
    chosen, started = options or AuditOptions(), time.perf_counter()
    listed = [as_subject(subject, chosen) for subject in subjects]
    alpha = split(chosen.alpha, max(len(listed), 1))
    reports = with_notes(audit_subject(subject, chosen, alpha) for subject in listed)
    return AuditReport(reports, chosen.seed, chosen.alpha, seconds=time.perf_counter() - started)


def as_subject(subject: Any, options: AuditOptions) -> Subject:
    """Return the subject of a name or an object, or a `Subject`, with its record as configured.

    Raises `InvalidInputError` for a name that leads nowhere, and for a third party's record without a size.

    What the user leaves out is on record like the failures that the user expects: it is out of date where
    the check would not apply.
    """
    if isinstance(subject, Subject):
        found = subject
    elif isinstance(subject, str):
        found = resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    else:
        attribute = getattr(subject, "__qualname__", type(subject).__name__)
        name = f"{getattr(subject, '__module__', '')}:{attribute}"
        found = of_object(name, subject, array=options.array, num_paths=options.num_paths)
    facts = found.facts
    if on_record := {*facts.known, *(["joint"] if facts.declared_lossy and not facts.bound else [])}:
        require_sizes(on_record, facts.at_most)
    known = {**facts.known, **options.skip, **options.expected}
    at_most = {**facts.at_most, **options.at_most}
    return replace(
        found, facts=replace(facts, known=known, expected=frozenset(options.expected), at_most=at_most)
    )


def audit_subject(
    subject: Subject,
    options: AuditOptions,
    alpha: float,
    note: Callable[[CheckResult], None] = lambda _: None,
) -> SubjectReport:
    """Run every check that the subject allows, at a false-alarm rate of ``alpha`` for all of them.

    ``note`` is called with each result as it comes.
    """
    results: dict[str, CheckResult] = {}
    context = replace(options.context(alpha), results=MappingProxyType(results))
    first = FirstCall(subject, context)
    with one_torch_thread(), watched():
        for name, check in CHECKS.items():
            results[name] = first.result(check, options.reason_to_skip(name))
            note(results[name])
        report = report_on(subject, options, alpha, tuple(results.values()))
        if isinstance(subject, SamplerSubject) and not (options.again or first.leaves_out):
            return replace(report, lines=lines_run(subject, context))
        return report
