"""What interception raises, with the line of the foreign code that is to blame."""

import linecache
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

from spec_oracle.exact.errors import NotTracedError
from spec_oracle.places import short_path

_HERE = str(Path(__file__).parent)
_LIBRARIES = (
    *("torch", "numpy", "scipy", "numba"),
    *("contextlib.py", "copy.py", "functools.py", "random.py", "secrets.py", "threading.py"),
)


class CannotTraceError(NotTracedError):
    """Random numbers of the foreign code took a path on which its law would no longer be exact.

    ``operation`` names the step, ``location`` the line of the foreign code as ``file:line: source``.
    """

    def __init__(self, operation: str, reason: str, location: str) -> None:
        self.operation = operation
        self.location = location
        self.frame: FrameType | None = None
        self._arguments = operation, reason, location
        super().__init__(f"{operation} cannot be traced: {reason} (at {location})")

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Leave the frame behind when pickled."""
        return type(self), self._arguments


class UnrepeatableError(NotTracedError):
    """Equal decisions led the foreign code elsewhere: it keeps state, or has randomness out of reach."""


def here() -> tuple[str, FrameType | None]:
    """Return ``file:line: source`` of the innermost frame that is neither ours nor a library's, and it."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the documented way to walk one's own stack)
    while frame is not None and not is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "unknown line", None
    name, line = frame.f_code.co_filename, frame.f_lineno
    return f"{short_path(Path(name))}:{line}: {linecache.getline(name, line).strip()}", frame


@lru_cache(maxsize=4096)
def is_foreign(filename: str) -> bool:
    """Whether a source file is neither ours nor one of a library through which random numbers pass."""
    path = Path(filename)
    parts = path.parts
    inside_library = "site-packages" in parts and parts[parts.index("site-packages") + 1] in _LIBRARIES
    return not (filename.startswith((_HERE, "<")) or inside_library or path.name in _LIBRARIES)
