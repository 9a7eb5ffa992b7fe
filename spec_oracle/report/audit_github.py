"""An audit as annotations of a GitHub workflow: what is red as errors, what is on record as warnings."""

from collections.abc import Iterator
from pathlib import Path

from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.report.audit_text import again_lines, audit_to_text, clause, counterexample_text


def audit_to_github(report: AuditReport) -> str:
    """Return the text report, then a workflow command for each check that is not simply passed."""
    lines = [line for subject in report.subjects for line in _annotations(subject)]
    return "\n".join([audit_to_text(report), *lines]) + "\n"


def _annotations(subject: SubjectReport) -> Iterator[str]:
    if subject.error:
        yield _command("error", subject, subject.subject, subject.error)
        return
    for check in subject.checks:
        if check.is_settled and not check.known:
            continue
        message = f"{check.name}: {check.status.value.replace('-', ' ')}: {clause(check)}"
        if check.name == "joint" and subject.counterexample is not None:
            message += f"\n{counterexample_text(subject.counterexample)}"
        message = "\n".join([message, *again_lines(check)])
        level = "warning" if check.is_settled else "error"
        yield _command(level, subject, f"{subject.subject}: {subject.verdict.value}", message)


def _command(level: str, subject: SubjectReport, title: str, message: str) -> str:
    """Return a workflow command, at the line of the subject's code where that is in the repository.

    The runner reads a percent sign as the start of an escape.
    """
    file, _, line = subject.code.place.rpartition(":")
    is_in_repository = file and not Path(file).is_absolute() and Path(file).exists()
    place = f"file={file},line={line}," * bool(is_in_repository)
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    in_title = title.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} {place}title={in_title}::{escaped}"
