"""Baselines: the exact block efficiency of a project's subjects, in a file that is kept in its repository.

A lossless rule may still accept less than it did: slower, and no check of the law sees it. With a baseline
the report has one more check, `baseline`, which fails where a subject accepts less on any instance. It does
not speak against the law: the subject stays lossless, and the run ends with 2.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spec_oracle.audit import AuditReport, CheckResult, Status, SubjectReport, SubjectVerdict
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.tokens import Effect, TokensPerCall, tokens_compared
from spec_oracle.version import tool_version

CHECK = "baseline"
"""The name of the check that a comparison adds to a report."""

VERSION = 1
"""Of the file."""


def read_baseline(file: Path) -> dict[str, TokensPerCall]:
    """Return the entries by subject; raises `InvalidInputError` for what is no baseline."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{file}: cannot be read: {error}") from None
    try:
        version = data["baseline_version"]
        entries = {subject: _entry(said) for subject, said in data["subjects"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"{file}: is no baseline: {type(error).__name__}: {error}") from None
    if version != VERSION:
        message = f"{file}: baseline_version: expected {VERSION}, got {version!r}"
        raise InvalidInputError(f"{message}; write the file anew with --update-baseline")
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
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(baseline_to_json({**kept, **new}), indent=1) + "\n", encoding="utf-8")
    return list(new)


def with_baseline(report: AuditReport, entries: Mapping[str, TokensPerCall]) -> AuditReport:
    """Return the report with the check `baseline` on every subject."""
    subjects = []
    for subject in report.subjects:
        check = compared(subject, entries.get(subject.subject))
        told = (f"{CHECK}: {check.detail}",) if check.status is Status.PASSED else ()
        subjects.append(replace(subject, checks=(*subject.checks, check), notes=(*subject.notes, *told)))
    return replace(report, subjects=tuple(subjects))


def compared(report: SubjectReport, kept: TokensPerCall | None) -> CheckResult:
    """Compare a subject with what is kept of it."""
    now = _tokens(report)
    if now is None:
        if report.verdict is SubjectVerdict.LOSSLESS and kept is not None:
            detail = "its law is no longer found exactly, as it was for the baseline"
            return CheckResult(CHECK, Status.INCONCLUSIVE, detail)
        return CheckResult(CHECK, Status.NOT_APPLICABLE, "compares exact laws of lossless subjects")
    if kept is None:
        return CheckResult(CHECK, Status.INCONCLUSIVE, "has no entry; --update-baseline makes one")
    effect, told = tokens_compared(now, kept)
    status = {Effect.WORSE: Status.FAILED, Effect.UNCLEAR: Status.INCONCLUSIVE}.get(effect, Status.PASSED)
    hint = "" if effect is Effect.NONE else "; if that is meant, --update-baseline keeps it"
    return CheckResult(CHECK, status, told + hint)


def _tokens(report: SubjectReport) -> TokensPerCall | None:
    return TokensPerCall.of(report.verdict, report.evidence, report.smallest_detectable_tv, report.figures)
