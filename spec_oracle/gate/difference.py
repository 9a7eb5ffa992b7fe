"""What changed between two reports of audits, and whether anything got worse.

Tokens per call are compared where both distributions are exact. Two distributions of 1 to L+1 emitted tokens
that are known up to total variations e and f may have means that differ by up to L (e + f) although nothing
has changed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeGuard, TypeVar

from spec_oracle.audit.reports import SCHEMA_VERSION, Evidence, SubjectVerdict
from spec_oracle.audit.results import Status
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.json_data import Json

T = TypeVar("T")
At: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of objects, indices of arrays."""

_RANKED: Final[Mapping[str, tuple[str, ...]]] = {
    "verdict": (
        *(SubjectVerdict.LOSSLESS, SubjectVerdict.DECLARED_LOSSY),
        *(SubjectVerdict.INCONCLUSIVE, SubjectVerdict.BROKEN, SubjectVerdict.LOSSY),
    ),
    "evidence": tuple(Evidence),
}
"""Words of a report, the best first."""

_RANKS: Final[Mapping[str, int]] = {
    Status.SKIPPED: 1,
    Status.NOT_RUN: 2,
    Status.INCONCLUSIVE: 2,
    Status.FAILED: 3,
}
"""How far a check is from a pass, which has rank 0."""

_MOST_ERROR: Final = 0.1
"""Tokens per call: with a larger error there is nothing to compare. Distributions that count as exact are
known up to a total variation of 0.001, so that only drafts of 100 tokens come near it."""

_WORDS: Final[Mapping[type, str]] = {
    float: "a number",
    int: "a whole number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


class Effect(StrEnum):
    """What a change means."""

    WORSE = "worse"
    BETTER = "better"
    UNCLEAR = "unclear"


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
    before, after = _ReportFile(old).subjects(), _ReportFile(new).subjects()
    changes: list[Change] = []
    for name in dict.fromkeys([*before, *after]):
        changes += _subject_changes(name, before.get(name), after.get(name))
    return Difference(str(old), str(new), tuple(changes))


@dataclass(frozen=True)
class _TokensPerCall:
    """Tokens per call of a lossless subject by instance, up to ``error``; instances by name and digest."""

    error: float
    tokens: Mapping[tuple[str, str], float]

    @property
    def mean(self) -> float:
        """Tokens per call, mean over the instances."""
        return sum(self.tokens.values()) / len(self.tokens)


@dataclass(frozen=True)
class _ReportedSubject:
    """A subject as a report has it: ``words`` by the keys of `_RANKED`, "" for no version and no rule.

    ``checks`` by name: status, the reason of a failure on record, detail.
    """

    words: Mapping[str, str]
    version: str
    rule: str
    checks: Mapping[str, tuple[str, str, str]]
    tokens: _TokensPerCall | None


def is_of(found: object, kind: type[T]) -> TypeGuard[T]:
    """Whether a value is of exactly that type; a whole number is a number, true is none."""
    return type(found) in ((int, float) if kind is float else (kind,))


class _ReportFile:
    """A parsed report; each value that is compared is refused unless it has its type and range."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self.data: Json = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"{file}: cannot be read: {error}") from None

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raise the error that names a value."""
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at).lstrip(".")
        hint = "expected what `spec-oracle audit --format json` writes; audit again"
        raise InvalidInputError(f"{self.file}: {name and name + ': '}{message}; {hint}")

    def value(self, at: At, kind: type[T]) -> T:
        """Return the value there, of the type that it must have, as those around it."""
        found = self.data
        for place, step in enumerate(at):
            if isinstance(step, int):
                found = self._required(at[:place], found, list)[step]
            elif step in (table := self._required(at[:place], found, dict)):
                found = table[step]
            else:
                self.refuse(at[: place + 1], f"missing; expected {_WORDS[kind]}")
        return self._required(at, found, kind)

    def _required(self, at: At, found: Json, kind: type[T]) -> T:
        if not is_of(found, kind):
            self.refuse(at, f"expected {_WORDS[kind]}, got {json.dumps(found):.80}")
        return found

    def number(self, at: At, most: float) -> float:
        """Return a number from 0 to ``most``."""
        found = self.value(at, float)
        if not 0 <= found <= most:
            self.refuse(at, f"expected a number from 0 to {most:g}, got {json.dumps(found):.80}")
        return float(found)

    def word(self, at: At, known: tuple[str, ...]) -> str:
        """Return one of the ``known`` words."""
        found = self.value(at, str)
        if found not in known:
            self.refuse(at, unknown(found, known))
        return found

    def text(self, at: At) -> str:
        """Return a string, "" for null."""
        table, key = self.value(at[:-1], dict), at[-1]
        return "" if key in table and table[key] is None else self.value(at, str)

    def each(self, at: At) -> Iterator[At]:
        """Yield the way to each place of an array."""
        return ((*at, number) for number in range(len(self.value(at, list))))

    def subjects(self) -> dict[str, _ReportedSubject]:
        """Return the subjects by name."""
        version = self.value(("schema_version",), int)
        if version != SCHEMA_VERSION:
            self.refuse(("schema_version",), f"expected {SCHEMA_VERSION}, got {version}")
        subjects: dict[str, _ReportedSubject] = {}
        for at in self.each(("subjects",)):
            name = self.value((*at, "subject"), str)
            if name in subjects:
                self.refuse((*at, "subject"), f"{name!r} is the name of a subject above, too")
            words = {key: self.word((*at, key), known) for key, known in _RANKED.items()}
            checks = {self.value((*one, "name"), str): self._check(one) for one in self.each((*at, "checks"))}
            version_of, rule = (self.text((*at, key)) for key in ("version", "rule"))
            subjects[name] = _ReportedSubject(words, version_of, rule, checks, self._tokens(at, words))
        return subjects

    def _check(self, at: At) -> tuple[str, str, str]:
        """Return status, reason on record and detail of a check."""
        status = self.word((*at, "status"), tuple(Status))
        return status, self.text((*at, "known")), self.text((*at, "detail"))

    def _tokens(self, at: At, words: Mapping[str, str]) -> _TokensPerCall | None:
        """Return the tokens per call of a subject, None unless its distribution is exactly the target's."""
        tokens: dict[tuple[str, str], float] = {}
        length = 0
        for one in self.each((*at, "instances")):
            key = self.value((*one, "instance"), str), self.value((*one, "digest"), str)
            if key in tokens:
                self.refuse((*one, "digest"), f"{key[1]!r} is the digest of an instance above, too")
            drafted = len(self.value((*one, "accepted_length"), list)) - 1
            tokens[key] = self.number((*one, "block_efficiency"), drafted + 1)
            length = max(length, drafted)
        undetected = (*at, "smallest_detectable_tv")
        if self.value(at, dict).get("smallest_detectable_tv", 0) is None or not tokens:
            return None
        error = length * self.number(undetected, 1.0)
        is_exact = words["evidence"] in (Evidence.EXACT, Evidence.REPLAYED)
        is_compared = is_exact and words["verdict"] == SubjectVerdict.LOSSLESS and error <= _MOST_ERROR
        return _TokensPerCall(error, tokens) if is_compared else None


def _subject_changes(
    name: str, old: _ReportedSubject | None, new: _ReportedSubject | None
) -> Iterator[Change]:
    if new is None:
        yield Change(name, "subject", old.words["verdict"] if old else "", "gone", Effect.WORSE)
        return
    if old is None:
        verdict = new.words["verdict"]
        is_fine = verdict in (SubjectVerdict.LOSSLESS, SubjectVerdict.DECLARED_LOSSY)
        yield Change(name, "subject", "", verdict, Effect.UNCLEAR if is_fine else Effect.WORSE)
        return
    for what, order in _RANKED.items():
        before, after = old.words[what], new.words[what]
        if before != after:
            yield Change(name, what, before, after, _effect(order.index(before), order.index(after)))
    for what, before, after in (("version", old.version, new.version), ("rule", old.rule, new.rule)):
        if before != after:
            yield Change(name, what, before or "none", after or "none", Effect.UNCLEAR)
    for check in dict.fromkeys([*old.checks, *new.checks]):
        yield from _check_changes(name, check, old.checks.get(check), new.checks.get(check))
    if old.tokens is not None and new.tokens is not None:
        yield from _token_changes(name, old.tokens, new.tokens)


def _effect(old: int, new: int) -> Effect:
    """Return what a change of rank means; the best has the lowest."""
    if new == old:
        return Effect.UNCLEAR
    return Effect.WORSE if new > old else Effect.BETTER


def _check_changes(
    name: str, check: str, old: tuple[str, str, str] | None, new: tuple[str, str, str] | None
) -> Iterator[Change]:
    """Yield the change of a check; a new one counts as one that passed."""
    before, rank = _said(old)
    after, new_rank = _said(new)
    if new is None:
        yield Change(name, check, before, "gone", Effect.WORSE)
    elif before != after:
        detail = f": {new[2]}" if new[0] == Status.FAILED and new[2] else ""
        yield Change(name, check, before, f"{after}{detail}", _effect(rank, new_rank))


def _said(check: tuple[str, str, str] | None) -> tuple[str, int]:
    """Return how a check ended, and how far it is from a pass."""
    if check is None:
        return "", 0
    status, known, _ = check
    rank = _RANKS.get(status, 0)
    return f"{status}{' as expected' if known else ''}", min(rank, 1) if known else rank


def _token_changes(name: str, old: _TokensPerCall, new: _TokensPerCall) -> Iterator[Change]:
    """Yield the change of tokens per call: worse if less is accepted on any instance."""
    before, now = old.tokens, new.tokens
    if now.keys() != before.keys():
        new_ones = ", ".join(one for one, _ in now.keys() - before.keys()) or "none"
        gone = ", ".join(one for one, _ in before.keys() - now.keys()) or "none"
        found = f"found on other instances: {new_ones} new, {gone} gone"
        yield Change(name, "tokens per call", f"{old.mean:.4f}", found, Effect.UNCLEAR)
        return
    gains = {one: now[one] - tokens for one, tokens in before.items()}
    for one, effect, word in (
        (min(gains, key=gains.__getitem__), Effect.WORSE, "less"),
        (max(gains, key=gains.__getitem__), Effect.BETTER, "more"),
    ):
        if abs(gains[one]) > new.error + old.error and (gains[one] < 0) == (effect is Effect.WORSE):
            most = f"most on {one[0]!r}: {_change(before[one], now[one])}"
            found = f"accepts {word} than before, {_change(old.mean, new.mean)} on average; {most}"
            yield Change(name, "tokens per call", f"{old.mean:.4f}", found, effect)
            return


def _change(before: float, now: float) -> str:
    return f"{before:.4f} to {now:.4f} tokens per call ({100 * (now / before - 1):+.2f} %)"
