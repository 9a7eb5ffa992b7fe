"""Reports: the same results as text, JSON, JUnit XML, Markdown, HTML and annotations."""

import json
from collections.abc import Callable

from spec_oracle.audit.reports import AuditReport
from spec_oracle.report.audit_github import audit_to_github
from spec_oracle.report.audit_html import audit_to_html
from spec_oracle.report.audit_json import audit_to_json, header
from spec_oracle.report.audit_junit import audit_to_junit
from spec_oracle.report.audit_markdown import audit_to_markdown
from spec_oracle.report.audit_text import audit_to_text

AUDIT_FORMATS: dict[str, Callable[[AuditReport], str]] = {
    "text": audit_to_text,
    "json": lambda report: json.dumps(audit_to_json(report), indent=1) + "\n",
    "junit": audit_to_junit,
    "markdown": audit_to_markdown,
    "html": audit_to_html,
    "github": audit_to_github,
}


__all__ = ["AUDIT_FORMATS", "audit_to_json", "header"]
