"""Audits: each check of a suite gives a result, the results give a verdict."""

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
