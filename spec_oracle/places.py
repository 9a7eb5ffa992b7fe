"""Find the line of the user's own code that an error or a function belongs to, for messages."""

import inspect
import sysconfig
from functools import lru_cache, partial
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import CodeType, FrameType
from typing import Any

SOURCE = "_source"
"""Attribute of a function of ours: the code under test that it calls."""

_CALLERS = 2
"""How many lines are told from which the one that raised was reached."""

_HERE = Path(__file__).parent
_OURS = (str(_HERE), str(_HERE.parent / "verifiers"))
_STANDARD = sysconfig.get_path("stdlib")


def short_path(path: Path) -> Path:
    """Return a path relative to the installed packages or to the working directory."""
    if "site-packages" in path.parts:
        return Path(*path.parts[path.parts.index("site-packages") + 1 :])
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """Whether a source file is a user's: not ours, the standard library's, or an installed package's."""
    return not filename.startswith(("<", *_OURS, _STANDARD)) and "site-packages" not in Path(filename).parts


def raised_at(error: BaseException) -> str:
    """Return "file:line" of the user's innermost line through which an exception came, "" without one.

    Lines of the user's from which that one was reached follow it, the last ones.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short_path(Path(error.filename))}:{error.lineno}"
    listed = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    callers = [_shown(line) for line in listed if is_users(line[0])][:-1]
    return ", from ".join([_innermost(listed), *callers[::-1][:_CALLERS]])


def running_at(frame: FrameType | None) -> str:
    """Return "file:line" of the user's innermost line that a stack is in, "" without one."""
    if frame is None:
        return ""
    return _innermost([(one.f_code.co_filename, line) for one, line in walk_stack(frame)][::-1])


def _innermost(lines: list[tuple[str, int]]) -> str:
    users = [line for line in lines if is_users(line[0])]
    found = users or [line for line in lines if not line[0].startswith(("<", *_OURS))]
    return _shown(found[-1]) if found else ""


def _shown(line: tuple[str, int]) -> str:
    return f"{short_path(Path(line[0]))}:{line[1]}"


def defined_at(thing: Any) -> str:
    """Return "file:line" of the definition of a function or of an object's call; "" if unknown."""
    while True:
        if isinstance(thing, partial):
            thing = thing.func
        elif hasattr(thing, SOURCE) or hasattr(thing, "__wrapped__"):
            thing = getattr(thing, SOURCE, None) or thing.__wrapped__
        elif inspect.ismethod(thing):
            thing = thing.__func__
        else:
            break
    code = getattr(thing, "__code__", None) or getattr(type(thing).__call__, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return f"{short_path(Path(code.co_filename))}:{code.co_firstlineno}"
