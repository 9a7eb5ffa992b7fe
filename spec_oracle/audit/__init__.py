"""Audits: checks give evidence, evidence gives a verdict."""

from spec_oracle.audit.results import (
    AuditReport,
    CheckResult,
    Counterexample,
    Evidence,
    Status,
    SubjectReport,
    SubjectVerdict,
)
from spec_oracle.audit.runner import AuditOptions, audit, audit_subject
from spec_oracle.audit.subjects import Subject, resolve_subject

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
