"""Baselines: the exact block efficiency of a project's subjects, in a file that is kept in its repository.

A lossless rule may still accept less than it did: slower, and no check of the law sees it. With a baseline
the report has one more check, `baseline`, which fails where a subject accepts less on any instance. It does
not speak against the law: the subject stays lossless, and the run ends with 2.

What is compared is exact, or integrated with a bound on its error: two laws of lengths 1..L+1 whose total
variations are known up to e and f have means that differ by at most L (e + f) for no reason.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spec_oracle.audit import AuditReport, CheckResult, Evidence, Status, SubjectReport, SubjectVerdict
from spec_oracle.errors import InvalidInputError
from spec_oracle.version import tool_version

CHECK = "baseline"
"""The name of the check that a comparison adds to a report."""

VERSION = 1
"""Of the file."""

_EXACT = (Evidence.EXACT, Evidence.REPLAYED)


@dataclass(frozen=True)
class Entry:
    """What is kept of a subject: tokens per call, their error, and names, by digest of the instance."""

    error: float
    tokens: Mapping[str, float]
    names: Mapping[str, str]

    @classmethod
    def of(cls, report: SubjectReport) -> "Entry | None":
        """Return what to keep of a subject, None of one whose law is not known, or not the target's."""
        if report.verdict is not SubjectVerdict.LOSSLESS or report.evidence not in _EXACT:
            return None
        if not report.figures or report.smallest_detectable_tv is None:
            return None
        length = max(len(figures.accepted_length) for figures in report.figures) - 1
        return cls(
            length * report.smallest_detectable_tv,
            {figures.digest: figures.block_efficiency for figures in report.figures},
            {figures.digest: figures.name for figures in report.figures},
        )

    @property
    def mean(self) -> float:
        """Tokens per call, mean over the instances."""
        return sum(self.tokens.values()) / len(self.tokens)


def read_baseline(file: Path) -> dict[str, Entry]:
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


def _entry(said: Mapping[str, Any]) -> Entry:
    instances = said["instances"]
    return Entry(
        float(said["error"]),
        {one["digest"]: float(one["block_efficiency"]) for one in instances},
        {one["digest"]: str(one["instance"]) for one in instances},
    )


def baseline_to_json(entries: Mapping[str, Entry]) -> dict[str, Any]:
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
    found = {subject.subject: Entry.of(subject) for subject in report.subjects}
    new = {name: entry for name, entry in found.items() if entry is not None}
    kept = read_baseline(file) if file.exists() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(baseline_to_json({**kept, **new}), indent=1) + "\n", encoding="utf-8")
    return list(new)


def with_baseline(report: AuditReport, entries: Mapping[str, Entry]) -> AuditReport:
    """Return the report with the check `baseline` on every subject."""
    subjects = []
    for subject in report.subjects:
        check = compared(subject, entries.get(subject.subject))
        told = (f"{CHECK}: {check.detail}",) if check.status is Status.PASSED else ()
        subjects.append(replace(subject, checks=(*subject.checks, check), notes=(*subject.notes, *told)))
    return replace(report, subjects=tuple(subjects))


def compared(report: SubjectReport, kept: Entry | None) -> CheckResult:
    """Compare a subject with what is kept of it."""
    now = Entry.of(report)
    if now is None:
        if report.verdict is SubjectVerdict.LOSSLESS and kept is not None:
            detail = "its law is no longer found exactly, as it was for the baseline"
            return CheckResult(CHECK, Status.INCONCLUSIVE, detail)
        reason = "compares exact laws of lossless subjects"
        return CheckResult(CHECK, Status.NOT_APPLICABLE, reason)
    if kept is None:
        return CheckResult(CHECK, Status.INCONCLUSIVE, "has no entry; --update-baseline makes one")
    if now.tokens.keys() != kept.tokens.keys():
        strange = [now.names[digest] for digest in now.tokens if digest not in kept.tokens]
        missing = [kept.names[digest] for digest in kept.tokens if digest not in now.tokens]
        detail = (
            f"other instances: {', '.join(strange) or 'none'} new, {', '.join(missing) or 'none'} gone; "
            "--update-baseline writes the entry anew"
        )
        return CheckResult(CHECK, Status.INCONCLUSIVE, detail)
    return _judged(now, kept)


def _judged(now: Entry, kept: Entry) -> CheckResult:
    error = now.error + kept.error
    shares = {digest: now.tokens[digest] / before - 1 for digest, before in kept.tokens.items()}
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    mean = f"{_change(kept.mean, now.mean)} on average"
    if kept.tokens[least] - now.tokens[least] > error:
        worst = f"most on {now.names[least]!r}: {_change(kept.tokens[least], now.tokens[least])}"
        return CheckResult(CHECK, Status.FAILED, f"accepts less than before, {mean}; {worst}")
    if now.tokens[most] - kept.tokens[most] > error:
        best = f"most on {now.names[most]!r}: {_change(kept.tokens[most], now.tokens[most])}"
        detail = f"accepts more than before, {mean}; {best}; --update-baseline keeps that"
        return CheckResult(CHECK, Status.PASSED, detail)
    detail = f"{now.mean:.4g} tokens per call on average, as before; a change of {error:.1g} would show"
    return CheckResult(CHECK, Status.PASSED, detail)


def _change(before: float, now: float) -> str:
    return f"{before:.4f} to {now:.4f} tokens per call ({100 * (now / before - 1):+.2f} %)"
