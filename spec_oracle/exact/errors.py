"""What is raised where a law cannot be found by running every outcome, and what limits the time for it.

Errors of tracing name the line of the foreign code that caused them.
"""

import linecache
import math
import sys
import sysconfig
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from spec_oracle.errors import SpecOracleError
from spec_oracle.places import short_path

_TRACER = str(Path(__file__).parent / "interception")
_STANDARD = sysconfig.get_path("stdlib")
_CALLERS = tuple(str(Path(_TRACER).parents[1] / room) for room in ("audit", "contracts", "exact", "threads"))
_LIBRARIES = (
    *("torch", "numpy", "scipy", "numba", "pebble"),
    *("contextlib.py", "copy.py", "functools.py", "random.py", "secrets.py", "threading.py"),
)

Line: TypeAlias = tuple[str, int]
"""A file and the number of a line in it."""


class NotTracedError(SpecOracleError):
    """The exact distribution of the code under test is out of reach: not every outcome can be run."""


class TooManyBranchesError(NotTracedError):
    """The code under test has more outcomes, decisions in a run, or work in all than was allowed."""


class NotInTimeError(TooManyBranchesError):
    """It has more outcomes than can be run in the time that was allowed."""


@dataclass
class Deadline:
    """An ``end`` of processor time, which takes longer to ask for than the time of day.

    One thread uses no more of it than goes by.
    """

    end: float = math.inf
    next_look: float = -math.inf

    def is_over(self) -> bool:
        """Whether the processor time has been used."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        self.next_look = now + self.end - time.process_time()
        return self.next_look < now


_deadline = lru_cache(maxsize=16)(Deadline)
"""The deadline of each ``end``."""


def require_time(end: float) -> None:
    """Raise `NotInTimeError` from the processor time ``end`` on."""
    if _deadline(end).is_over():
        raise NotInTimeError("the time for this distribution is over")


class CannotTraceError(NotTracedError):
    """A step of the foreign code with random numbers cannot be traced: its law would not be exact.

    ``operation`` names the step, ``location`` the line of the foreign code as ``file:line: source``.
    """

    def __init__(self, operation: str, reason: str, location: str) -> None:
        self.operation = operation
        self.location = location
        self.frame: FrameType | None = None
        self._arguments = operation, reason, location
        super().__init__(f"{operation} cannot be traced: {reason}{f' (at {location})' * bool(location)}")

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Leave the frame behind when pickled."""
        return type(self), self._arguments


class UnrepeatableError(NotTracedError):
    """The foreign code did other things after equal decisions: it keeps state, or has other randomness."""


def here() -> tuple[Line, FrameType | None]:
    """Return the innermost line of the foreign code itself, and its frame; ("", 0) for none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the documented way to walk one's own stack)
    while frame is not None and not _is_named(frame.f_code.co_filename):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno), frame


def shown(line: Line) -> str:
    """Return ``file:line: source``, "" for no line."""
    name, number = line
    if not name:
        return ""
    return f"{short_path(Path(name))}:{number}: {linecache.getline(name, number).strip()}"


@lru_cache(maxsize=4096)
def _is_named(filename: str) -> bool:
    """Whether errors name lines of a source file: not those that call the code under test."""
    of_python = filename.startswith(_STANDARD) and "site-packages" not in Path(filename).parts
    return is_foreign(filename) and not of_python and not filename.startswith(_CALLERS)


@lru_cache(maxsize=4096)
def is_foreign(filename: str) -> bool:
    """Whether a source file is neither ours nor one of a library through which random numbers pass."""
    path = Path(filename)
    parts = path.parts
    inside_library = "site-packages" in parts and parts[parts.index("site-packages") + 1] in _LIBRARIES
    return not (filename.startswith((_TRACER, "<")) or inside_library or path.name in _LIBRARIES)
