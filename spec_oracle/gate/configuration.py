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

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.options import TINY, AuditOptions, Isolation
from spec_oracle.audit.shapes.axes import NAMES
from spec_oracle.audit.subjects import require_name
from spec_oracle.errors import InvalidInputError
from spec_oracle.gate.input_file import At, InputFile
from spec_oracle.toy import Instance

FILES = (("spec-oracle.toml", ()), ("pyproject.toml", ("tool", "spec-oracle")))
"""Where a configuration is looked for, best first: a file of the working directory, and a table in it."""

_RECORDS = {"skips": "skip", "expected-failures": "expected"}
_OF_THE_RUN = {"alpha", "seed"}
_ENTRY = ("subject", "check", "reason")
_SIZE = "at-most"


@dataclass(frozen=True)
class Configuration:
    """The subjects and options of a project; empty without a file.

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
    """Return the configuration in a folder, an empty one without any; raises `InvalidInputError`."""
    for name, table in FILES:
        file = folder / name
        if file.is_file() and (not table or InputFile(file, table).data is not None):
            return read_configuration(file)
    return Configuration()


def read_configuration(file: Path) -> Configuration:
    """Return what a file says; raises `InvalidInputError` for what makes no sense, with its line."""
    source = InputFile(file, dict(FILES).get(file.name, ()))
    if source.data is None:
        source.refuse((), f"there is no table [{'.'.join(map(str, source.table))}]")
    said = source.value((), dict)
    if not source.value(("subjects",), list):
        source.refuse(("subjects",), "expected at least one, got none")
    known = [*_fields(AuditOptions), *_fields(Isolation), "subjects", "baseline", "instances", *_RECORDS]
    source.require_keys((), known)
    options, limits = (_values(source, (), kind) for kind in (AuditOptions, Isolation))
    if "instances" in said:
        options["instances"] = dict(_instances(source))
    own = dict(_own(source))
    for key, kind in _RECORDS.items():
        for subject, check, reason, most in _records(source, key, own) if key in said else ():
            own[subject].setdefault(kind, {})[check] = reason
            if most is not None:
                own[subject].setdefault("at_most", {})[check] = most
    baseline = file.parent / source.value(("baseline",), str) if "baseline" in said else None
    return Configuration(file, tuple(own), options, own, limits, baseline)


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


def _values(source: InputFile, within: At, kind: type) -> dict[str, Any]:
    """Return the fields of a class of options that a table sets, accepted by that class."""
    values: dict[str, Any] = {}
    said = source.value(within, dict)
    for key, (name, simple) in _fields(kind).items():
        if key not in said:
            continue
        at = (*within, key)
        values[name] = (
            source.file.parent / source.value(at, str) if simple is Path else source.value(at, simple)
        )
        try:
            kind(**values)
        except InvalidInputError as error:
            source.refuse(at, str(error).removeprefix(f"{name}: "))
    return values


def _own(source: InputFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each subject with its own options: a name, or a table that has one."""
    seen: set[str] = set()
    for number, one in enumerate(source.value(("subjects",), list)):
        here: At = ("subjects", number)
        if not isinstance(one, str):
            source.require_keys(here, ["name", *_fields(AuditOptions).keys() - _OF_THE_RUN])
        name = one if isinstance(one, str) else source.value((*here, "name"), str)
        try:
            require_name(name)
        except InvalidInputError as error:
            source.refuse(here, str(error).partition(": ")[2])
        if name in seen:
            source.refuse(here, f"{name!r} is named twice")
        seen.add(name)
        yield name, {} if isinstance(one, str) else _values(source, here, AuditOptions)


def _instances(source: InputFile) -> Iterator[tuple[str, Instance]]:
    for number, name in enumerate(source.value(("instances",), list)):
        try:
            yield name, Instance.load(source.file.parent / name)
        except InvalidInputError as error:
            source.refuse(("instances", number), str(error))


def _records(
    source: InputFile, key: str, own: Mapping[str, object]
) -> Iterator[tuple[str, str, str, float | None]]:
    """Yield subject, check, reason and size of each entry; None for what has no size."""
    for here in source.entries((key,)):
        source.require_keys(here, _ENTRY if key == "skips" else (*_ENTRY, _SIZE))
        subject, check = source.one_of((*here, "subject"), own), source.one_of((*here, "check"), CHECKS)
        reason = source.value((*here, "reason"), str)
        if not reason.strip():
            source.refuse((*here, "reason"), "expected a reason, got none")
        yield subject, check, reason, None if key == "skips" else _size(source, here, check)


def _size(source: InputFile, here: At, check: str) -> float | None:
    """Return the size of an expected failure, None of a check that does not compare with the target."""
    at, entry = (*here, _SIZE), source.value(here, dict)
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
    most = source.value(at, float)
    if not 0 < most <= 1:
        source.refuse(at, f"expected a total variation above 0 and at most 1, got {most!r}")
    return float(most)
