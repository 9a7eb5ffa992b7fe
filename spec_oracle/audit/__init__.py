"""Audits: each check of a suite gives a result, the results give a verdict.

The package can be called: `spec_oracle.audit(subject)` is `spec_oracle.audit.audit(subject)`.
"""

import sys
from types import ModuleType
from typing import Any

from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import AuditReport, Counterexample, Evidence, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import CheckResult, How, Status
from spec_oracle.audit.run import audit, audit_subject
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.subjects import resolve_subject

__all__ = [
    "AuditOptions",
    "AuditReport",
    "CheckResult",
    "Counterexample",
    "Evidence",
    "How",
    "Status",
    "Subject",
    "SubjectReport",
    "SubjectVerdict",
    "audit",
    "audit_subject",
    "resolve_subject",
]


class _CallablePackage(ModuleType):
    def __call__(self, *subjects: object, **how: Any) -> AuditReport:
        return audit(*subjects, **how)


sys.modules[__name__].__class__ = _CallablePackage
