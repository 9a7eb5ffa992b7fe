"""An audit as annotations of a GitHub workflow: open checks as errors, failures on record as warnings."""

from collections.abc import Iterator
from pathlib import Path

from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.report.audit_text import audit_to_text, clause, failure_lines
from spec_oracle.report.reading import first_what_is_open, open_checks
from spec_oracle.report.what_to_do import next_steps


def audit_to_github(report: AuditReport) -> str:
    """Return the text report, then a workflow command for each check that is open or on record."""
    lines = [line for subject in first_what_is_open(report) for line in _annotations(subject, report.command)]
    return "\n".join([audit_to_text(report), *lines]) + "\n"


def _annotations(subject: SubjectReport, command: str) -> Iterator[str]:
    if subject.error:
        yield _command("error", subject, subject.subject, subject.error)
        return
    steps = [f"do: {step}" for step in next_steps(subject, command)]
    for check in [
        *open_checks(subject),
        *(check for check in subject.checks if check.is_settled and check.known),
    ]:
        message = f"{check.name}: {check.status.value.replace('-', ' ')}: {clause(check)}"
        next_ = steps if check in open_checks(subject)[:1] else []
        message = "\n".join([message, *failure_lines(subject, check, command), *next_])
        level = "warning" if check.is_settled else "error"
        yield _command(level, subject, f"{subject.subject}: {subject.verdict.value}", message)


def _command(level: str, subject: SubjectReport, title: str, message: str) -> str:
    """Return a workflow command, at the line of the subject's code where that is in the repository.

    The runner reads a percent sign as the start of an escape.
    """
    file, _, line = subject.code.place.partition(", from ")[0].rpartition(":")
    is_in_repository = file and not Path(file).is_absolute() and Path(file).exists()
    place = f"file={file},line={line}," * bool(is_in_repository)
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    in_title = title.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} {place}title={in_title}::{escaped}"
