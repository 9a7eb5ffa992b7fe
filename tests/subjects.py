"""Subjects of audits as most tests make them, and what they read in the reports."""

import sys

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


def forget_modules_of(folder):
    """Forget the modules that were imported from a folder of a user."""
    for name, module in [*sys.modules.items()]:
        own = getattr(module, "__dict__", {})  # not what it shows of itself: thousands would make that
        if str(folder) in f"{own.get('__file__')} {own.get('__path__')}":
            del sys.modules[name]
