"""Keeps lossless results of audits, and finds them again while what they depend on is the same.

A result depends on the files of the code under test and of what it imports outside the standard library and
installed packages (by their contents), on the installed packages (by their versions), on the sources of
spec-oracle, and on options, seed and error rate. Files that the code reads are not seen, nor is what it asks
over a network: servers are never kept. A file of the folder is a pickle: who can write it can run code.
"""

import hashlib
import json
import pickle
import platform
import sys
import sysconfig
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import spec_oracle
import verifiers
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import SubjectReport, SubjectVerdict
from spec_oracle.errors import InvalidInputError

OURS = tuple(Path(package.__file__ or "").parent for package in (spec_oracle, verifiers))
"""Folders of our own sources."""

_IMPORTS = "imports"
"""In the folder of a subject: a file with digests of what its code imported."""


@dataclass(frozen=True)
class Kept:
    """A lossless result, the day it was found (UTC), and digests of the ``files`` that it depends on."""

    day: str
    files: dict[str, str]
    report: SubjectReport


def found(folder: Path, name: str, options: AuditOptions, alpha: float) -> SubjectReport | None:
    """Return the result that is kept of a subject, None where there is none or anything has changed."""
    try:
        kept = pickle.loads(_file(folder, name, options, alpha).read_bytes())  # noqa: S301  # see above
    except Exception:  # noqa: BLE001  # a file that cannot be read is none
        return None
    if not isinstance(kept, Kept) or any(digest(Path(file)) != one for file, one in kept.files.items()):
        return None
    return replace(kept.report, as_on=kept.day)


def keep(folder: Path, report: SubjectReport, own: Path, options: AuditOptions, alpha: float) -> None:
    """Keep a result if it is lossless with nothing open; its ``own`` folder is that of `write_imports`.

    Inputs that a user names are for looking at a subject, and their results are not kept.
    """
    imports = own / _IMPORTS
    is_settled = report.verdict is SubjectVerdict.LOSSLESS and all(one.is_settled for one in report.checks)
    if not is_settled or options.instances is not None or options.again is not None or not imports.exists():
        return
    kept = Kept(datetime.now(tz=UTC).date().isoformat(), json.loads(imports.read_text("utf-8")), report)
    file = _file(folder, report.subject, options, alpha)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(kept))
        unfinished.replace(file)
    except OSError as error:
        raise InvalidInputError(f"cache: {error}; name a folder that you may write to") from None


def write_imports(folder: Path, started: float) -> None:
    """Write a digest of each file that this process imported; nothing if one changed since ``started``."""
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    installed = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    paths = {Path(path) for module in [*sys.modules.values()] if (path := getattr(module, "__file__", None))}
    own = [
        path for path in paths if not any(path.is_relative_to(one) for one in (*standard, *installed, *OURS))
    ]
    if all(path.stat().st_mtime < started for path in own if path.exists()):
        digests = {_short(path): digest(path) for path in own}
        (folder / _IMPORTS).write_text(json.dumps(digests), encoding="utf-8")


def digest(file: Path) -> str:
    """Return the digest of a file, "" where there is none."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


@cache
def environment() -> str:
    """Return what results depend on besides the code under test: our sources, Python, installed packages."""
    sources = (file for folder in OURS for file in sorted(folder.rglob("*.py")))
    installed = sorted(f"{one.metadata['Name']} {one.version}" for one in distributions())
    parts = [sys.version, platform.platform(), *installed, *map(digest, sources)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _file(folder: Path, name: str, options: AuditOptions, alpha: float) -> Path:
    """Return the file of a result, named after all that it depends on but files."""
    key = "\n".join([name, repr(options), repr(alpha), environment()])
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.pickle"


def _short(path: Path) -> str:
    """Return a path from the working directory, so that a checkout elsewhere finds the same file."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
