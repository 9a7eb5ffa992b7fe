"""Subjects of audits as most tests make them, and what they read in the reports."""

from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subjects import of_engines
from spec_oracle.contracts import SamplerCode


def sampler(function, array="numpy", **options):
    """Return a sampler of numpy or torch; further arguments are those of `SamplerSubject`."""
    return SamplerSubject("mine", SamplerCode(function, array), **options)


def of_engine(engine):
    """Return the subject of one engine."""
    return of_engines("mine", {"": engine})


def only(report):
    """Return the one subject of a report."""
    (subject,) = report.subjects
    return subject


def checks_of(subject):
    """Return the results of a subject by the name of the check."""
    return {check.name: check for check in subject.checks}
