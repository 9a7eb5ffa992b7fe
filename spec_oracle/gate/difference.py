"""What changed between two reports of audits, and whether anything got worse."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_oracle.audit.reports import SCHEMA_VERSION, Evidence, InstanceFigures, SubjectVerdict
from spec_oracle.audit.results import Status
from spec_oracle.errors import unknown
from spec_oracle.gate.json_source import At, JsonSource
from spec_oracle.gate.tokens import Effect, TokensPerCall, tokens_compared

_RANKED = {
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


def _subjects(file: Path) -> dict[str, dict[str, Any]]:
    """Return the subjects of a report by name, once each value that is compared has its type and range."""
    source = JsonSource(file, "expected what `spec-oracle audit --format json` writes; audit again")
    version = source.value(("schema_version",), int)
    if version != SCHEMA_VERSION:
        source.refuse(("schema_version",), f"expected {SCHEMA_VERSION}, got {version}")
    subjects: dict[str, dict[str, Any]] = {}
    for number in range(len(source.value(("subjects",), list))):
        at: At = ("subjects", number)
        found, name = source.value(at, dict), source.value((*at, "subject"), str)
        if name in subjects:
            source.refuse((*at, "subject"), f"{name!r} is the name of a subject above, too")
        for key, known in _RANKED.items():
            if (word := source.value((*at, key), str)) not in known:
                source.refuse((*at, key), unknown(word, known))
        for key in ("version", "rule", "smallest_detectable_tv"):
            if key not in found:
                source.refuse((*at, key), "missing")
        if found["smallest_detectable_tv"] is not None:
            source.number((*at, "smallest_detectable_tv"), 0.0, 1.0)
        _require_checks(source, (*at, "checks"))
        _require_figures(source, (*at, "instances"))
        subjects[name] = found
    return subjects


def _require_checks(source: JsonSource, at: At) -> None:
    for number in range(len(source.value(at, list))):
        one = (*at, number)
        source.value((*one, "name"), str)
        if (status := source.value((*one, "status"), str)) not in tuple(Status):
            source.refuse((*one, "status"), unknown(status, tuple(Status)))
        for key in ("known", "detail"):
            if source.value(one, dict).get(key) is not None:
                source.value((*one, key), str)


def _require_figures(source: JsonSource, at: At) -> None:
    digests: set[str] = set()
    for number in range(len(source.value(at, list))):
        one = (*at, number)
        source.value((*one, "instance"), str)
        if (digest := source.value((*one, "digest"), str)) in digests:
            source.refuse((*one, "digest"), f"{digest!r} is the digest of an instance above, too")
        digests.add(digest)
        source.number((*one, "block_efficiency"), 0.0)
        source.value((*one, "accepted_length"), list)


def _subject_changes(
    name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[Change]:
    if new is None:
        yield Change(name, "subject", old["verdict"] if old else "", "gone", Effect.WORSE)
        return
    if old is None:
        is_fine = new["verdict"] in (SubjectVerdict.LOSSLESS, SubjectVerdict.DECLARED_LOSSY)
        yield Change(name, "subject", "", new["verdict"], Effect.UNCLEAR if is_fine else Effect.WORSE)
        return
    for what, order in _RANKED.items():
        if old[what] != new[what]:
            yield Change(name, what, old[what], new[what], _effect(order.index, old[what], new[what]))
    for what in ("version", "rule"):
        if old[what] != new[what]:
            yield Change(name, what, old[what] or "none", new[what] or "none", Effect.UNCLEAR)
    yield from _check_changes(name, old["checks"], new["checks"])
    yield from _efficiency_changes(name, old, new)


def _effect(rank: Callable[[Any], int], old: Any, new: Any) -> Effect:
    if rank(new) == rank(old):
        return Effect.UNCLEAR
    return Effect.WORSE if rank(new) > rank(old) else Effect.BETTER


def _check_changes(
    name: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> Iterator[Change]:
    before, after = ({check["name"]: check for check in checks} for checks in (old, new))
    for check in dict.fromkeys([*before, *after]):
        one, other = before.get(check), after.get(check)
        if one is not None and other is not None and _shown(one) == _shown(other):
            continue
        if other is None:
            yield Change(name, check, _shown(one), "gone", Effect.WORSE)
        else:
            detail = other.get("detail") or "" if other["status"] == Status.FAILED else ""
            shown = f"{_shown(other)}{detail and ': '}{detail}"
            yield Change(name, check, _shown(one), shown, _effect(_rank, one, other))


def _shown(check: Mapping[str, Any] | None) -> str:
    if check is None:
        return ""
    return f"{check['status']}{' as expected' if check.get('known') else ''}"


_RANKS = {Status.SKIPPED: 1, Status.NOT_RUN: 2, Status.INCONCLUSIVE: 2, Status.FAILED: 3}


def _rank(check: Mapping[str, Any] | None) -> int:
    """Return how far a check is from a pass; a new check counts as one that passed."""
    if check is None:
        return 0
    rank = _RANKS.get(check["status"], 0)
    return min(rank, 1) if check.get("known") else rank


def _efficiency_changes(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Compare tokens per call where both distributions are exact; lossy code may accept anything."""
    before, now = _tokens(old), _tokens(new)
    if before is None or now is None:
        return
    effect, change = tokens_compared(now, before)
    if effect is not Effect.NONE:
        yield Change(name, "tokens per call", f"{before.mean:.4f}", change, effect)


def _tokens(subject: Mapping[str, Any]) -> TokensPerCall | None:
    names = ("instance", "digest", "block_efficiency", "optimum", "accepted_length")
    figures = [InstanceFigures(*(one.get(name) for name in names)) for one in subject["instances"]]
    verdict, error = subject["verdict"], subject["smallest_detectable_tv"]
    return TokensPerCall.of(verdict, subject["evidence"], error, figures)
