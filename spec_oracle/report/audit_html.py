"""An audit as one self-contained HTML page: templates/audit.html, and what it needs besides the report."""

from collections.abc import Iterator
from datetime import UTC, datetime

from markupsafe import Markup, escape

from spec_oracle.audit.reports import AuditReport, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import UNTRIED, CheckResult, Cover
from spec_oracle.report import audit_text, reading, what_to_do
from spec_oracle.report.page import environment, page
from spec_oracle.version import tool_version

SIGNS = {
    SubjectVerdict.LOSSLESS: "✓",
    SubjectVerdict.LOSSY: "✗",
    SubjectVerdict.INCONCLUSIVE: "?",
    SubjectVerdict.BROKEN: "✗",
    SubjectVerdict.DECLARED_LOSSY: "!",
}
COVERED = {
    Cover.PROVEN: "✓",
    Cover.REPRESENTED: "✓*",
    Cover.SAMPLED: "≈",
    Cover.WRONG: "✗",
    Cover.NOT_TRACED: "?",
    Cover.UNTRIED: "–",
}


def audit_to_html(report: AuditReport) -> str:
    """Return the page: what is open first, then verdicts and headroom, then the other subjects."""
    reader = environment()
    reader.filters.update(
        mark=audit_text.mark,
        clause=audit_text.clause,
        statistics=audit_text.statistics,
        shown=_shown,
        coded=_coded,
        counterexample=lambda found: "\n".join(audit_text.counterexample_lines(found)[0]),
        headline=reading.headline,
        open_checks=reading.open_checks,
        passed=lambda subject: reading.passed_line(subject.checks),
        what_to_do=lambda subject: what_to_do.what_to_do(subject, report.command),
        named=lambda check: (check.name, check),
        bar=lambda headroom: f"{100 * min(max(headroom, 0.0), 1.0):.1f}",
        untried=_untried,
    )
    reader.globals.update(SIGNS=SIGNS, COVERED=COVERED, NUMBERS=audit_text.NUMBERS)
    head, rows = audit_text.audit_table(report)
    first = {subject.subject for subject in report.subjects if not reading.is_plainly_lossless(subject)}
    return page(
        reader.get_template("audit.html"),
        title="spec-oracle audit",
        report=report,
        date=datetime.now(UTC).date(),
        version=tool_version(),
        closing=audit_text.closing_line(report),
        head=head,
        names=reading.tried_names(report),
        rows=[*zip(report.subjects, rows, strict=True)],
        first=[subject for subject in reading.first_what_is_open(report) if subject.subject in first],
        others=[subject for subject in report.subjects if subject.subject not in first],
        facts=lambda subject: ", ".join(_facts(subject)),
    )


def _shown(subject: SubjectReport, check: CheckResult, command: str) -> list[str]:
    """Return what shows a failure, without what the picture of the counterexample shows."""
    found = subject.counterexample
    drawn = audit_text.counterexample_lines(found)[0][1:] if found else []
    return [line for line in audit_text.failure_lines(subject, check, command) if line not in drawn]


def _coded(text: str) -> Markup:
    """Return a line with what is in backticks as code."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts)
    )


def _facts(subject: SubjectReport) -> Iterator[str]:
    rule = reading.rule_of(subject)
    facts = {"kind": subject.kind, "version": subject.code.version, "rule": rule}
    yield from (f"{name} {value}" for name, value in facts.items() if value)


def _untried(subject: SubjectReport) -> list[str]:
    untried = [check for check in subject.checks if check.status in UNTRIED and check.is_settled]
    return audit_text.check_lines(untried)
