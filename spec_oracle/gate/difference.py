"""Compare two reports of audits: list the changes, and whether anything got worse."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spec_oracle.audit.reports import SCHEMA_VERSION, Evidence, InstanceFigures, SubjectVerdict
from spec_oracle.audit.results import Status
from spec_oracle.gate.baseline import Effect, TokensPerCall, tokens_compared
from spec_oracle.gate.input_file import read_json

_RANKED: Final[Mapping[str, tuple[str, ...]]] = {
    "verdict": (
        *(SubjectVerdict.LOSSLESS, SubjectVerdict.DECLARED_LOSSY),
        *(SubjectVerdict.INCONCLUSIVE, SubjectVerdict.BROKEN, SubjectVerdict.LOSSY),
    ),
    "evidence": tuple(Evidence),
}
"""Words of a report, the best first."""


@dataclass(frozen=True)
class Change:
    """One change of one subject; ``before`` and ``after`` are words for people, empty where nothing was."""

    subject: str
    what: str
    before: str
    after: str
    effect: Effect


@dataclass(frozen=True)
class Difference:
    """All changes between the reports in two files."""

    old: str
    new: str
    changes: tuple[Change, ...]

    @property
    def exit_code(self) -> int:
        """1 if anything got worse, else 0."""
        return int(any(change.effect is Effect.WORSE for change in self.changes))


def difference(old: Path, new: Path) -> Difference:
    """Compare two files of ``spec-oracle audit --format json``; raises `InvalidInputError` for others."""
    before, after = _subjects(old), _subjects(new)
    changes: list[Change] = []
    for name in dict.fromkeys([*before, *after]):
        changes += _subject_changes(name, before.get(name), after.get(name))
    return Difference(str(old), str(new), tuple(changes))


@dataclass(frozen=True)
class ReportedCheck:
    """A check as a report has it; ``known`` is the reason of a failure on record, "" for others."""

    name: str
    status: str
    known: str
    detail: str

    def __str__(self) -> str:
        """Return the status, and whether it was expected."""
        return f"{self.status}{' as expected' if self.known else ''}"

    @property
    def rank(self) -> int:
        """How far the check is from a pass."""
        rank = _RANKS.get(self.status, 0)
        return min(rank, 1) if self.known else rank


@dataclass(frozen=True)
class ReportedSubject:
    """A subject as a report has it; ``words`` are its verdict, evidence, version and rule, "" without one."""

    words: Mapping[str, str]
    checks: Mapping[str, ReportedCheck]
    tokens: TokensPerCall | None


_RANKS: Final[Mapping[str, int]] = {
    Status.SKIPPED: 1,
    Status.NOT_RUN: 2,
    Status.INCONCLUSIVE: 2,
    Status.FAILED: 3,
}


def _subjects(file: Path) -> dict[str, ReportedSubject]:
    """Return the subjects of a report by name; raises `InvalidInputError` for another file."""

    def by_name(found: Mapping[str, Any]) -> dict[str, ReportedSubject]:
        subjects = {str(one["subject"]): _subject(one) for one in found["subjects"]}
        if len(subjects) < len(found["subjects"]):
            raise ValueError("two subjects have one name")
        return subjects

    hint = "expected what `spec-oracle audit --format json` writes; audit again"
    return read_json(file, "schema_version", SCHEMA_VERSION, by_name, hint)


def _subject(found: Mapping[str, Any]) -> ReportedSubject:
    """Return a subject of the JSON of a report; raises `KeyError`, `TypeError` or `ValueError`."""
    words: dict[str, str] = {
        "verdict": SubjectVerdict(found["verdict"]),
        "evidence": Evidence(found["evidence"]),
        "version": found["version"] or "",
        "rule": found["rule"] or "",
    }
    figures = [
        InstanceFigures(
            one["instance"],
            one["digest"],
            _number(one, "block_efficiency"),
            None,
            tuple(one["accepted_length"]),
        )
        for one in found["instances"]
    ]
    error = None if found["smallest_detectable_tv"] is None else _number(found, "smallest_detectable_tv", 1.0)
    tokens = TokensPerCall.of(words["verdict"], words["evidence"], error, figures)
    checks = {
        one["name"]: ReportedCheck(
            one["name"], Status(one["status"]), one.get("known") or "", one.get("detail") or ""
        )
        for one in found["checks"]
    }
    return ReportedSubject(words, checks, tokens)


def _number(found: Mapping[str, Any], key: str, most: float = sys.float_info.max) -> float:
    """Return a number at a key; raises `ValueError` where it is out of range: it would hide a change."""
    if not 0 <= found[key] <= most:
        raise ValueError(f"{key}: expected a number from 0 to {most:g}, got {found[key]}")
    return float(found[key])


def _subject_changes(name: str, old: ReportedSubject | None, new: ReportedSubject | None) -> Iterator[Change]:
    if new is None:
        yield Change(name, "subject", old.words["verdict"] if old else "", "gone", Effect.WORSE)
        return
    if old is None:
        verdict = new.words["verdict"]
        is_fine = verdict in (SubjectVerdict.LOSSLESS, SubjectVerdict.DECLARED_LOSSY)
        yield Change(name, "subject", "", verdict, Effect.UNCLEAR if is_fine else Effect.WORSE)
        return
    for what, before in old.words.items():
        if before != (after := new.words[what]):
            ranks = [_RANKED[what].index(one) if what in _RANKED else 0 for one in (before, after)]
            yield Change(name, what, before or "none", after or "none", _effect(*ranks))
    yield from _check_changes(name, old.checks, new.checks)
    yield from _efficiency_changes(name, old.tokens, new.tokens)


def _effect(old: int, new: int) -> Effect:
    """Return what a change of rank means; the best has the lowest."""
    if new == old:
        return Effect.UNCLEAR
    return Effect.WORSE if new > old else Effect.BETTER


def _check_changes(
    name: str, old: Mapping[str, ReportedCheck], new: Mapping[str, ReportedCheck]
) -> Iterator[Change]:
    for check in dict.fromkeys([*old, *new]):
        one, other = old.get(check), new.get(check)
        before = "" if one is None else str(one)
        if other is None:
            yield Change(name, check, before, "gone", Effect.WORSE)
        elif before != str(other):
            detail = other.detail if other.status == Status.FAILED else ""
            shown = f"{other}{detail and ': '}{detail}"
            # A new check counts as one that passed.
            yield Change(name, check, before, shown, _effect(one.rank if one else 0, other.rank))


def _efficiency_changes(
    name: str, before: TokensPerCall | None, now: TokensPerCall | None
) -> Iterator[Change]:
    """Compare tokens per call where both distributions are exact; lossy code may accept anything."""
    if before is None or now is None:
        return
    effect, change = tokens_compared(now, before)
    if effect is not Effect.NONE:
        yield Change(name, "tokens per call", f"{before.mean:.4f}", change, effect)
