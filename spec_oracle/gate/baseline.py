"""Baselines: the exact block efficiency of a project's subjects, in a file that is kept in its repository.

A lossless rule may still accept less than it did: slower, and no check of its distribution sees it. With a
baseline the report has one more check, `baseline`, which fails where a subject accepts less on any instance.
It does not count against the distribution: the subject stays lossless, and the exit code is 2.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spec_oracle.audit.reports import AuditReport, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import CheckResult, How, Status
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.tokens import Effect, TokensPerCall, tokens_compared
from spec_oracle.version import tool_version

CHECK = "baseline"
"""The name of the check that a comparison adds to a report."""

VERSION = 1
"""Of the file."""


def read_baseline(file: Path) -> dict[str, TokensPerCall]:
    """Return the entries by subject; raises `InvalidInputError` for what is no baseline."""
    if not file.exists():
        raise InvalidInputError(f"{file}: no such file; write the baseline first, with --update-baseline")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{file}: cannot be read: {error}") from None
    try:
        version = data["baseline_version"]
        entries = {subject: _entry(said) for subject, said in data["subjects"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}; write one with --update-baseline"
        raise InvalidInputError(f"{file}: not a baseline: {why}") from None
    if version != VERSION:
        message = f"{file}: baseline_version: expected {VERSION}, got {version!r}"
        raise InvalidInputError(f"{message}; write the file again with --update-baseline")
    return entries


def _entry(said: Mapping[str, Any]) -> TokensPerCall:
    instances = said["instances"]
    return TokensPerCall(
        float(said["error"]),
        {one["digest"]: float(one["block_efficiency"]) for one in instances},
        {one["digest"]: str(one["instance"]) for one in instances},
    )


def baseline_to_json(entries: Mapping[str, TokensPerCall]) -> dict[str, Any]:
    """Return a baseline as JSON data, in an order that does not change."""
    return {
        "baseline_version": VERSION,
        "tool_version": tool_version(),
        "subjects": {
            subject: {
                "error": entry.error,
                "instances": [
                    {"instance": entry.names[digest], "digest": digest, "block_efficiency": tokens}
                    for digest, tokens in entry.tokens.items()
                ],
            }
            for subject, entry in sorted(entries.items())
        },
    }


def update_baseline(file: Path, report: AuditReport) -> list[str]:
    """Write what a report says to the file, beside the subjects that it does not cover; return the names."""
    found = {subject.subject: _tokens(subject) for subject in report.subjects}
    new = {name: entry for name, entry in found.items() if entry is not None}
    kept = read_baseline(file) if file.exists() else {}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(baseline_to_json({**kept, **new}), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"--baseline: {error}; name a file that you may write to") from None
    return list(new)


def beside_baseline(
    file: Path | None, *, update: bool = False
) -> Callable[[AuditReport], tuple[AuditReport, str]]:
    """Return what compares a report with a baseline, read now, or updates it: the report, a line on stderr.

    Raises `InvalidInputError` for a file that is no baseline, and for an update without a file.
    """
    if file is None:
        if update:
            raise InvalidInputError("--update-baseline: add --baseline FILE, or configure a baseline")
        return lambda report: (report, "")
    if not update:
        entries = read_baseline(file)
        return lambda report: (with_baseline(report, entries), "")

    def updating(report: AuditReport) -> tuple[AuditReport, str]:
        nothing = "nothing new: no lossless subject has an exact distribution"
        return report, f"baseline: {file} holds {', '.join(update_baseline(file, report)) or nothing}"

    return updating


def with_baseline(report: AuditReport, entries: Mapping[str, TokensPerCall]) -> AuditReport:
    """Return the report with the check `baseline` on every subject."""
    subjects = (
        replace(subject, checks=(*subject.checks, compared(subject, entries.get(subject.subject))))
        for subject in report.subjects
    )
    return replace(report, subjects=tuple(subjects))


def compared(report: SubjectReport, kept: TokensPerCall | None) -> CheckResult:
    """Compare a subject with its entry in the baseline."""
    now = _tokens(report)
    if now is None:
        if report.verdict is SubjectVerdict.LOSSLESS and kept is not None:
            detail = "its distribution is no longer found exactly, as it was for the baseline"
            return CheckResult(CHECK, Status.INCONCLUSIVE, detail)
        return CheckResult(CHECK, Status.NOT_APPLICABLE, "compares exact distributions only")
    if kept is None:
        return CheckResult(CHECK, Status.INCONCLUSIVE, "no entry; --update-baseline makes one")
    effect, change = tokens_compared(now, kept)
    status = {Effect.WORSE: Status.FAILED, Effect.UNCLEAR: Status.INCONCLUSIVE}.get(effect, Status.PASSED)
    hint = "" if effect is Effect.NONE else "; if intended, accept it with --update-baseline"
    return CheckResult(CHECK, status, change + hint, how=How.PROVEN)


def _tokens(report: SubjectReport) -> TokensPerCall | None:
    return TokensPerCall.of(report.verdict, report.evidence, report.smallest_detectable_tv, report.figures)
