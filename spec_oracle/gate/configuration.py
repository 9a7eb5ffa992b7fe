"""The configuration of a project: what to audit, how, and what is known to fail.

    [tool.spec-oracle]                      # in pyproject.toml; spec-oracle.toml has the same keys at its top
    subjects = ["my_engine.sampler:verify", {name = "my_engine.trees:verify", num-paths = 3}]
    array = "torch"

    [[tool.spec-oracle.expected-failures]]
    subject = "my_engine.sampler:verify"
    check = "bad-input"
    reason = "NaN rows are refused one layer up, see issue 12"

    [[tool.spec-oracle.expected-failures]]
    subject = "my_engine.sampler:verify"
    check = "joint"
    at-most = 2e-3                          # the largest total variation that is expected
    reason = "tables in float16, see issue 13"

Every field of `AuditOptions` and `Isolation` is a key, with dashes, for all subjects or in the table of one.
Errors name the file and the line.
"""

import tomllib
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import NoReturn, TypeVar, get_args, get_type_hints

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.isolation import Isolation
from spec_oracle.audit.options import TINY, AuditOptions
from spec_oracle.audit.shapes.axes import NAMES
from spec_oracle.audit.subjects import require_name
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.gate.json_source import At, is_of
from spec_oracle.json_data import Json
from spec_oracle.toy import Instance

FILES = (("spec-oracle.toml", ()), ("pyproject.toml", ("tool", "spec-oracle")))
"""Where a configuration is looked for, best first: a file of the working directory, and a table in it."""

_RECORDS = {"skips": "skip", "expected-failures": "expected"}
_OF_THE_RUN = {"alpha", "seed"}
_ENTRY = ("subject", "check", "reason")
_SIZE = "at-most"
_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "an array",
}

T = TypeVar("T")


class ConfigurationError(InvalidInputError):
    """A configuration makes no sense; the message begins with its file and the line."""


@dataclass(frozen=True)
class Configuration:
    """What a project wants audited; nothing, where it has no file.

    ``options`` and ``limits`` are fields of `AuditOptions` and `Isolation`; ``own`` those of single subjects,
    by name. ``baseline`` is the file of exact block efficiencies, None where none is kept.
    """

    file: Path | None = None
    subjects: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    limits: Mapping[str, object] = field(default_factory=dict)
    baseline: Path | None = None

    def options_of(self, subject: str, **given: object) -> AuditOptions:
        """Return how to audit a subject: as ``given``, else as its own table says, else as for all.

        Counterexamples are saved in a folder of that name, unless another is configured.
        """
        made: Callable[..., AuditOptions] = AuditOptions  # which validates its fields itself
        own = self.own.get(subject, {})
        skip = {name: why for some in (own, given) for name, why in _skipped(some).items()}
        saved = {"counterexamples": Path("counterexamples")}
        return made(**{**saved, **self.options, **own, **given, "skip": skip})

    def isolation(self, jobs: int, /, **given: object) -> Isolation:
        """Return the processes to audit in: as ``given``, else as configured, else ``jobs`` at a time."""
        made: Callable[..., Isolation] = Isolation
        return made(**{"jobs": jobs, **self.limits, **given})


def _skipped(options: Mapping[str, object]) -> Mapping[str, str]:
    """Return the checks that options leave out, with the reasons."""
    found = options.get("skip")
    return found if isinstance(found, Mapping) else {}


def given_fields(kind: type, options: Namespace) -> dict[str, object]:
    """Return the fields of a class of options that a parsed command line sets."""
    values = {one.name: getattr(options, one.name, None) for one in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def find_configuration(folder: Path) -> Configuration:
    """Return the configuration in a folder, an empty one without any; raises `ConfigurationError`."""
    for name, table in FILES:
        file = folder / name
        if file.is_file() and (not table or _at(_ConfigurationFile(file).data, table) is not None):
            return read_configuration(file)
    return Configuration()


def read_configuration(file: Path) -> Configuration:
    """Return what a file says; raises `ConfigurationError` for what makes no sense, with its line."""
    source = _ConfigurationFile(file, dict(FILES).get(file.name, ()))
    said = _at(source.data, source.table)
    if said is None:
        source.refuse((), f"there is no table [{'.'.join(map(str, source.table))}]")
    if not isinstance(said, Mapping):
        source.refuse((), f"expected a table, got {said!r}")
    listed = [{"name": s} if isinstance(s, str) else s for s in source.typed(said, "subjects", list)]
    if not listed:
        source.refuse(("subjects",), "expected at least one, got none")
    known = [*_fields(AuditOptions), *_fields(Isolation), "subjects", "baseline", "instances", *_RECORDS]
    source.table_of((), said, known)
    options, limits = (_values(source, (), said, kind) for kind in (AuditOptions, Isolation))
    if "instances" in said:
        options["instances"] = dict(_instances(source, source.typed(said, "instances", list)))
    own = dict(_own(source, listed))
    records: dict[tuple[str, str], dict[str, str | float]] = defaultdict(dict)
    for key, kind in _RECORDS.items():
        for subject, check, reason, most in _records(source, key, said, own):
            records[subject, kind][check] = reason
            if most is not None:
                records[subject, "at_most"][check] = most
    for (subject, kind), by_check in records.items():
        own[subject][kind] = by_check
    baseline = file.parent / source.typed(said, "baseline", str) if "baseline" in said else None
    return Configuration(file, tuple(own), options, own, limits, baseline)


def line_of(text: str, at: Sequence[str | int]) -> int:
    """Return the line of a TOML document on which a value appears, counted from 1.

    It is the end of the shortest piece of the document, an open array closed, that has the value: the parser
    is that of the standard library, which tells no positions.
    """
    lines = text.splitlines()
    for number in range(1, len(lines) + 1):
        for closing in ("", "\n]"):
            try:
                piece = tomllib.loads("\n".join(lines[:number]) + closing)
            except tomllib.TOMLDecodeError:
                continue
            if _at(piece, at) is not None:
                return number
    return 1


def _at(data: Json, at: Sequence[str | int]) -> Json:
    """Return the value there, None where there is none; TOML has no null."""
    for step in at:
        if isinstance(data, Mapping) and isinstance(step, str):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


class _ConfigurationFile:
    """A parsed file, and ``table``, the part of it that is ours."""

    def __init__(self, file: Path, table: At = ()) -> None:
        self.file, self.table = file, table
        try:
            self.text = file.read_text(encoding="utf-8")
            self.data = tomllib.loads(self.text)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{file}: cannot be read: {error}") from None

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raise the error that points to a value, or to the nearest table around one that is missing."""
        found = at
        while found and _at(self.data, (*self.table, *found)) is None:
            found = found[:-1]
        line = line_of(self.text, (*self.table, *found))
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at).lstrip(".")
        raise ConfigurationError(f"{self.file}:{line}: {name and name + ': '}{message}")

    def typed(self, said: Mapping[str, Json], key: str, kind: type[T], within: At = ()) -> T:
        """Return a value of a table, of the type that it must have."""
        if key not in said:
            self.refuse((*within, key), f"missing; expected {_WORDS[kind]}")
        value = said[key]
        if not is_of(value, kind):
            self.refuse((*within, key), f"expected {_WORDS[kind]}, got {value!r}")
        return value

    def table_of(self, within: At, said: Json, known: Sequence[str]) -> Mapping[str, Json]:
        """Return a table; what is no table is refused, and keys that nobody knows."""
        if not isinstance(said, dict):
            self.refuse(within, f"expected a table, got {said!r}")
        for key in said:
            if key not in known:
                self.refuse((*within, key), unknown(key, known, "key"))
        return said


def _fields(kind: type) -> dict[str, tuple[str, type]]:
    """Return the fields of a class of options that TOML can spell, by key: name and type."""
    fields = {}
    for name, hint in get_type_hints(kind).items():
        kinds = set(get_args(hint)) if isinstance(hint, UnionType) else {hint}
        simple = next(iter(kinds & {bool, int, float, str, Path}), None)
        simple = list if name in ("checks", "dtypes", *NAMES.values()) else simple
        if simple is not None:
            fields[name.replace("_", "-")] = name, simple
    return fields


def _values(
    source: _ConfigurationFile, within: At, said: Mapping[str, Json], kind: type
) -> dict[str, object]:
    """Return the fields of a class of options that a table sets, accepted by that class."""
    values: dict[str, object] = {}
    for key, (name, simple) in _fields(kind).items():
        if key not in said:
            continue
        if simple is Path:
            values[name] = source.file.parent / source.typed(said, key, str, within)
        else:
            values[name] = source.typed(said, key, simple, within)
        try:
            kind(**values)
        except InvalidInputError as error:
            source.refuse((*within, key), str(error).removeprefix(f"{name}: "))
    return values


def _own(source: _ConfigurationFile, listed: Sequence[Json]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each subject with its own options."""
    seen: set[str] = set()
    for number, one in enumerate(listed):
        here: At = ("subjects", number)
        said = source.table_of(here, one, ["name", *_fields(AuditOptions).keys() - _OF_THE_RUN])
        name = source.typed(said, "name", str, here)
        try:
            require_name(name)
        except InvalidInputError as error:
            source.refuse(here, str(error).partition(": ")[2])
        if name in seen:
            source.refuse(here, f"{name!r} is named twice")
        seen.add(name)
        yield name, _values(source, here, said, AuditOptions)


def _instances(source: _ConfigurationFile, files: Sequence[str]) -> Iterator[tuple[str, Instance]]:
    for number, name in enumerate(files):
        try:
            yield name, Instance.load(source.file.parent / name)
        except InvalidInputError as error:
            source.refuse(("instances", number), str(error))


def _records(
    source: _ConfigurationFile, key: str, said: Mapping[str, Json], own: Mapping[str, object]
) -> Iterator[tuple[str, str, str, float | None]]:
    """Yield subject, check, reason and size of each entry; None for what has no size."""
    for number, one in enumerate(source.typed(said, key, list) if key in said else []):
        here: At = (key, number)
        entry = source.table_of(here, one, _ENTRY if key == "skips" else (*_ENTRY, _SIZE))
        subject, check, reason = (source.typed(entry, name, str, here) for name in _ENTRY)
        for name, value, known in (("subject", subject, [*own]), ("check", check, [*CHECKS])):
            if value not in known:
                source.refuse((*here, name), unknown(value, known))
        if not reason.strip():
            source.refuse((*here, "reason"), "expected a reason, got none")
        yield subject, check, reason, None if key == "skips" else _size(source, here, check, entry)


def _size(source: _ConfigurationFile, here: At, check: str, entry: Mapping[str, Json]) -> float | None:
    """Return the size of an expected failure, None of a check that does not compare with the target."""
    at = (*here, _SIZE)
    if not CHECKS[check].against_law:
        if _SIZE in entry:
            source.refuse(at, f"{check!r} does not compare with the target: its failure has no size")
        return None
    if _SIZE not in entry:
        source.refuse(
            at,
            f"missing: {check!r} compares with the target, and a record of it admits a total variation up to "
            f"its size only; write {_SIZE} = {TINY:g}, and the next run prints the line with the right one",
        )
    most = source.typed(entry, _SIZE, float, here)
    if not 0 < most <= 1:
        source.refuse(at, f"expected a total variation above 0 and at most 1, got {most!r}")
    return float(most)
