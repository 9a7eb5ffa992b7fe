"""Baselines: the exact block efficiency of a project's subjects, in a file that is kept in its repository.

A lossless rule may still accept less than it did: slower, and no check of its distribution sees it. With a
baseline the report has one more check, `baseline`, which fails where a subject accepts less on any instance.
It does not count against the distribution: the subject stays lossless, and the exit code is 2.

Two distributions of 1 to L+1 emitted tokens that are known up to total variations e and f may have means that
differ by up to L (e + f) although nothing has changed.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from spec_oracle.audit.declared import ROUNDING
from spec_oracle.audit.reports import AuditReport, Evidence, InstanceFigures, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import CheckResult, How, Remarks, Status
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.input_file import read_json
from spec_oracle.installed import tool_version

CHECK = "baseline"
"""The name of the check that a comparison adds to a report."""

VERSION = 1
"""Of the file."""

_COARSER = 2
"""So many times the error of a run, and a baseline hides what this run would show."""

_EXACT = (Evidence.EXACT, Evidence.REPLAYED)

MOST_ERROR = 0.1
"""Tokens per call: with a larger error there is nothing to compare. Distributions that count as exact are
known up to a total variation of 0.001, so that only drafts of 100 tokens come near it."""


class Effect(StrEnum):
    """The effect of a change."""

    WORSE = "worse"
    BETTER = "better"
    NONE = "none"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class TokensPerCall:
    """Tokens per call of a lossless subject, up to ``error``, and the instances' names, by their digests."""

    error: float
    tokens: Mapping[str, float]
    names: Mapping[str, str]

    @classmethod
    def of(
        cls, verdict: str, evidence: str, error: float | None, figures: Sequence[InstanceFigures]
    ) -> "TokensPerCall | None":
        """Return the figures of a subject, None unless its distribution is known to be exactly the target's.

        ``error`` is the total variation that would not have been noticed.
        """
        if verdict != SubjectVerdict.LOSSLESS or evidence not in _EXACT or not figures or error is None:
            return None
        length = max(len(one.accepted_length) for one in figures) - 1
        if length * error > MOST_ERROR:
            return None
        return cls(
            length * error,
            {one.digest: one.block_efficiency for one in figures},
            {one.digest: one.name for one in figures},
        )

    @property
    def mean(self) -> float:
        """Tokens per call, mean over the instances."""
        return sum(self.tokens.values()) / len(self.tokens)


def tokens_compared(now: TokensPerCall, before: TokensPerCall) -> tuple[Effect, str]:
    """Return what the change is, and a line on it: worse if less is accepted on any instance."""
    if now.tokens.keys() != before.tokens.keys():
        new = [now.names[digest] for digest in now.tokens if digest not in before.tokens]
        gone = [before.names[digest] for digest in before.tokens if digest not in now.tokens]
        names = f"{', '.join(new) or 'none'} new, {', '.join(gone) or 'none'} gone"
        return Effect.UNCLEAR, f"found on other instances: {names}"
    error = now.error + before.error
    shares = {digest: now.tokens[digest] / tokens for digest, tokens in before.tokens.items()}
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)

    def change_at(digest: str) -> str:
        on_average = f"{_change(before.mean, now.mean)} on average"
        there = _change(before.tokens[digest], now.tokens[digest])
        return f"{on_average}; most on {now.names[digest]!r}: {there}"

    if before.tokens[least] - now.tokens[least] > error:
        return Effect.WORSE, f"accepts less than before, {change_at(least)}"
    if now.tokens[most] - before.tokens[most] > error:
        return Effect.BETTER, f"accepts more than before, {change_at(most)}"
    return Effect.NONE, f"{now.mean:.4g} tokens per call, unchanged; a change of {error:.1g} would be noticed"


def _change(before: float, now: float) -> str:
    return f"{before:.4f} to {now:.4f} tokens per call ({100 * (now / before - 1):+.2f} %)"


def read_baseline(file: Path) -> dict[str, TokensPerCall]:
    """Return the entries by subject; raises `InvalidInputError` for another file."""
    if not file.exists():
        raise InvalidInputError(f"{file}: no such file; write the baseline first, with --update-baseline")
    hint = "correct it, or delete the file and write it again with --update-baseline"

    def entries(found: Mapping[str, Any]) -> dict[str, TokensPerCall]:
        return {subject: _entry(one) for subject, one in found["subjects"].items()}

    return read_json(file, "baseline_version", VERSION, entries, hint)


def _entry(found: Mapping[str, Any]) -> TokensPerCall:
    """Return the entry of a subject; raises `KeyError`, `TypeError` or `ValueError` where it is none."""
    error, instances = found["error"], found["instances"]
    tokens = {one["digest"]: one["block_efficiency"] for one in instances}
    if not 0 <= error <= MOST_ERROR:
        raise ValueError(f"error: expected a number from 0 to {MOST_ERROR}, got {error}")
    # Each call emits a token at least, as far as rounding lets it show.
    if not tokens or not all(1 - max(error, ROUNDING) <= one < math.inf for one in tokens.values()):
        raise ValueError("block_efficiency: expected numbers of at least 1")
    if len(tokens) < len(instances):
        raise ValueError("instances: one of them appears twice")
    return TokensPerCall(error, tokens, {one["digest"]: one["instance"] for one in instances})


def update_baseline(file: Path, report: AuditReport) -> list[str]:
    """Write the subjects of a report to the file, which keeps its other subjects; return the new names."""
    found = {subject.subject: _tokens(subject) for subject in report.subjects}
    new = {name: entry for name, entry in found.items() if entry is not None}
    kept = read_baseline(file) if file.exists() else {}
    subjects = {
        subject: {
            "error": entry.error,
            "instances": [
                {"instance": entry.names[digest], "digest": digest, "block_efficiency": tokens}
                for digest, tokens in entry.tokens.items()
            ],
        }
        for subject, entry in sorted({**kept, **new}.items())
    }
    data = {"baseline_version": VERSION, "tool_version": tool_version(), "subjects": subjects}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"--baseline: {error}; name a file that you may write to") from None
    return list(new)


def kept_baseline(file: Path | None, *, update: bool) -> dict[str, TokensPerCall]:
    """Return the entries of a baseline, none without a file; what an update keeps is read, too.

    Raises `InvalidInputError` for a file that is no baseline, and for an update without a file.
    """
    if file is None and update:
        raise InvalidInputError("--update-baseline: add --baseline FILE, or configure a baseline")
    return {} if file is None or (update and not file.exists()) else read_baseline(file)


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
        do = Remarks(do="make an entry with --update-baseline")
        return CheckResult(CHECK, Status.INCONCLUSIVE, "no entry", remarks=do)
    if kept.error > _COARSER * now.error:
        found = f"it was found up to {kept.error:.1g} tokens per call, and now up to {now.error:.1g}"
        do = Remarks(do="write a finer baseline with --update-baseline")
        return CheckResult(CHECK, Status.INCONCLUSIVE, found, remarks=do)
    effect, change = tokens_compared(now, kept)
    status = {Effect.WORSE: Status.FAILED, Effect.UNCLEAR: Status.INCONCLUSIVE}.get(effect, Status.PASSED)
    hint = "" if effect is Effect.NONE else "; if intended, accept it with --update-baseline"
    return CheckResult(CHECK, status, change + hint, how=How.PROVEN)


def _tokens(report: SubjectReport) -> TokensPerCall | None:
    return TokensPerCall.of(report.verdict, report.evidence, report.smallest_detectable_tv, report.figures)
