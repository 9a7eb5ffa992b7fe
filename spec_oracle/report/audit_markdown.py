"""An audit as a page of Markdown: for the summary of a step in CI, or to be kept."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.installed import tool_version
from spec_oracle.report import audit_text, reading
from spec_oracle.report.table import markdown_table
from spec_oracle.report.what_to_do import next_steps


def audit_to_markdown(report: AuditReport) -> str:
    """Return the report as Markdown: verdict, open checks, the table, and the rest, folded."""
    listed = [(subject, section(subject, report.command)) for subject in reading.first_what_is_open(report)]
    first = [text for subject, text in listed if not reading.is_plainly_lossless(subject)]
    rest = [text for subject, text in listed if reading.is_plainly_lossless(subject)]
    table = table_of([cells(subject) for subject in report.subjects])
    parts = ["# spec-oracle audit", f"**{audit_text.closing_line(report)}**", *first, table, *rest]
    return "\n\n".join([*parts, made_by(report.command or "audit(...)")]) + "\n"


def cells(subject: SubjectReport) -> list[str]:
    """Return the row of a subject in the table."""
    return [*audit_text.audit_cells(subject), reading.rule_of(subject)]


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """Return the table of the `cells` of subjects."""
    return markdown_table(*audit_text.with_entries((*audit_text.HEAD, "rule"), rows))


def made_by(command: str) -> str:
    """Return the sentence that says when a page was made, by what."""
    return f"Made on {datetime.now(UTC).date()} by `{command}`, spec-oracle {tool_version()}."


def section(subject: SubjectReport, command: str = "") -> str:
    """Return the section of a subject: open checks first; folded if there are none."""
    others = [check for check in subject.checks if check.is_settled and not reading.is_only_named(check)]
    remarks = [
        *filter(None, [reading.passed_line(subject.checks)]),
        *audit_text.check_lines(others),
        *subject.remarks.notes,
        *subject.remarks.scope,
        *(f"printed: {line}" for line in subject.code.output.splitlines()),
    ]
    title = escape(reading.headline(subject))
    items = "\n".join(f"<li>{escape(line)}</li>" for line in remarks)
    if reading.is_plainly_lossless(subject):
        return f"<details><summary>{title}</summary><ul>\n{items}\n</ul></details>"
    lines = "\n".join([*filter(None, [subject.error]), *audit_text.open_lines(subject, command)])
    shown = f"\n\n```\n{lines}\n```" if lines else ""
    next_ = "".join(f"\n\n**do:** {escape(step)}" for step in next_steps(subject, command))
    return f"## {title}{shown}{next_}\n\n<ul>\n{items}\n</ul>"
