"""Audits: checks give evidence, evidence gives a verdict."""

from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.results import (
    AuditReport,
    CheckResult,
    Counterexample,
    Evidence,
    Status,
    SubjectReport,
    SubjectVerdict,
)
from spec_oracle.audit.run import audit, audit_subject
from spec_oracle.audit.subjects.resolve import Subject, resolve_subject

__all__ = [
    "AuditOptions",
    "AuditReport",
    "CheckResult",
    "Counterexample",
    "Evidence",
    "Status",
    "Subject",
    "SubjectReport",
    "SubjectVerdict",
    "audit",
    "audit_subject",
    "resolve_subject",
]
