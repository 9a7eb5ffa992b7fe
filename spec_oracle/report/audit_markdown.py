"""An audit as a page of Markdown: for the summary of a step in CI, or to be kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.report.audit_text import (
    HEAD,
    alarm_text,
    audit_cells,
    check_lines,
    closing_line,
    open_lines,
    verdicts_text,
    with_entries,
)
from spec_oracle.report.reading import (
    first_what_is_open,
    headline,
    is_only_named,
    is_plainly_lossless,
    open_checks,
    passed_line,
    rule_of,
)
from spec_oracle.report.table import markdown_table
from spec_oracle.report.what_to_do import what_to_do
from spec_oracle.version import tool_version


def audit_to_markdown(report: AuditReport) -> str:
    """Return the report as Markdown: verdict, what is open, the table, and the rest, folded."""
    in_order = first_what_is_open(report)
    rows = {subject.subject: row for subject, row in zip(report.subjects, page_rows(report), strict=True)}
    listed = [rows[subject.subject] for subject in in_order]
    first = [row for row in listed if row.is_open]
    rest = [row for row in listed if not row.is_open]
    table = _table([*rows.values()])
    made = _made(report.command or "audit(...)")
    parts = ["# spec-oracle audit", f"**{closing_line(report)}**", *map(_section, first), table]
    return "\n\n".join([*parts, *map(_section, rest), made]) + "\n"


@dataclass(frozen=True)
class PageRow:
    """What a page says of one subject, as JSON can hold it; ``is_drawn`` if it was sampled.

    ``title`` is its verdict and how far it goes, ``shown`` what is open and what shows it, ``do`` what to do
    about it, ``remarks`` the rest.
    """

    verdict: str
    is_drawn: bool
    is_open: bool
    cells: list[str]
    title: str
    shown: str
    do: str
    remarks: list[str]


def page_rows(report: AuditReport) -> list[PageRow]:
    """Return what a page needs, subject by subject."""
    return [_page_row(subject, report.command) for subject in report.subjects]


def _page_row(subject: SubjectReport, command: str) -> PageRow:
    open_, others = open_checks(subject), [check for check in subject.checks if check.is_settled]
    remarks = [
        *filter(None, [passed_line(subject.checks)]),
        *check_lines([check for check in others if not is_only_named(check)]),
        *subject.remarks.notes,
        *subject.remarks.scope,
        *(f"printed: {line}" for line in subject.code.output.splitlines()),
    ]
    return PageRow(
        subject.verdict.value,
        any(check.measured.alpha > 0 for check in subject.checks),
        bool(open_ or subject.error) or not is_plainly_lossless(subject),
        [*audit_cells(subject), rule_of(subject)],
        headline(subject),
        "\n".join([*filter(None, [subject.error]), *open_lines(subject, command)]),
        what_to_do(subject, command),
        remarks,
    )


def markdown_page(rows: Sequence[PageRow], command: str, alpha: float, seed: int) -> str:
    """Return the page of evidence that ``command`` makes of the `page_rows` of subjects: the table first."""
    alarm = f"; {alarm_text(alpha)}" if any(row.is_drawn for row in rows) else ""
    counts = f"{verdicts_text(row.verdict for row in rows)}{alarm}; seed {seed}"
    return (
        "\n\n".join(["# spec-oracle audit", _made(command), counts, _table(rows), *map(_section, rows)])
        + "\n"
    )


def _made(command: str) -> str:
    return f"Made on {datetime.now(UTC).date()} by `{command}`, spec-oracle {tool_version()}."


def _table(rows: Sequence[PageRow]) -> str:
    return markdown_table(*with_entries((*HEAD, "rule"), [row.cells for row in rows]))


def _section(row: PageRow) -> str:
    """Return what is known of one subject: what is open first, or, where nothing is, folded."""
    items = "\n".join(f"<li>{escape(line)}</li>" for line in row.remarks)
    if not row.is_open:
        return f"<details><summary>{escape(row.title)}</summary><ul>\n{items}\n</ul></details>"
    shown = f"\n\n```\n{row.shown}\n```" if row.shown else ""
    do = f"\n\n**do:** {escape(row.do)}" if row.do else ""
    return f"## {escape(row.title)}{shown}{do}\n\n<ul>\n{items}\n</ul>"
