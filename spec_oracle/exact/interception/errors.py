"""What interception raises, with the line of the foreign code that is to blame."""

import linecache
import sys
from pathlib import Path
from types import FrameType

from spec_oracle.errors import SpecOracleError

_HERE = str(Path(__file__).parent)
_LIBRARIES = ("torch", "numpy", "contextlib.py", "copy.py", "functools.py")


class CannotFollowError(SpecOracleError):
    """Random numbers of the foreign code took a path on which its law would no longer be exact.

    ``operation`` names the step, ``location`` the line of the foreign code as ``file:line: source``.
    """

    def __init__(self, operation: str, reason: str, location: str) -> None:
        self.operation = operation
        self.location = location
        super().__init__(f"{operation}: {reason} (at {location})")


class TooManyBranchesError(SpecOracleError):
    """The foreign code has more branches than the caller allowed."""


class UnrepeatableError(SpecOracleError):
    """Equal decisions led the foreign code elsewhere: it keeps state, or has randomness out of reach."""


def foreign_location() -> str:
    """Return ``file:line: source`` of the innermost stack frame that is neither ours nor a library's."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the documented way to walk one's own stack)
    while frame is not None and not _is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "unknown line"
    name, line = frame.f_code.co_filename, frame.f_lineno
    return f"{name}:{line}: {linecache.getline(name, line).strip()}"


def _is_foreign(filename: str) -> bool:
    path = Path(filename)
    parts = path.parts
    inside_library = "site-packages" in parts and parts[parts.index("site-packages") + 1] in _LIBRARIES
    return not (filename.startswith((_HERE, "<")) or inside_library or path.name in _LIBRARIES)
