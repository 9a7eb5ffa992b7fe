"""Find the line of the user's own code that an error or a function belongs to, for messages."""

import dis
import inspect
import sysconfig
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import CodeType, FrameType, FunctionType
from typing import Any

SOURCE = "_source"
"""Attribute of a function of ours: the code under test that it calls."""

UNDER_TEST = "under_test"
"""The name by which an adapter that `init` writes calls the user's function."""

_CONVERSIONS = "spec_oracle.contracts."
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

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
    return f"{_short(line[0], Path.cwd())}:{line[1]}"


@lru_cache(maxsize=4096)
def _short(filename: str, folder: Path) -> str:  # noqa: ARG001  (what is short depends on it)
    """Return the short path of a file while ``folder`` is the working directory."""
    return str(short_path(Path(filename)))


def defined_at(thing: Any) -> str:
    """Return "file:line" of the definition of a function or of an object's call; "" if unknown.

    Of an adapter, that of the function behind it: "engine.py:8, from adapter.py:9".
    """
    defined = _definition(thing)
    if defined is None:
        return ""
    behind = _behind(defined) if _is_adapter(defined) else ()
    places = [*(behind if len(behind) == 1 else ()), defined.__code__]
    return ", from ".join(_shown((code.co_filename, code.co_firstlineno)) for code in places)


def _definition(thing: Any) -> FunctionType | None:
    """Return the function that is run where a thing is called; None of compiled code."""
    while True:
        if isinstance(thing, partial):
            thing = thing.func
        elif hasattr(thing, SOURCE) or hasattr(thing, "__wrapped__"):
            thing = getattr(thing, SOURCE, None) or thing.__wrapped__
        elif inspect.ismethod(thing):
            thing = thing.__func__
        else:
            break
    called = (
        thing if isinstance(thing, FunctionType) else inspect.getattr_static(type(thing), "__call__", None)
    )
    return called if isinstance(called, FunctionType) else None


def _is_adapter(function: FunctionType) -> bool:
    """Whether a function hands its arguments on: `init` wrote it, or it calls our conversions of arrays."""
    return any(
        name == UNDER_TEST or str(getattr(thing, "__module__", "")).startswith(_CONVERSIONS)
        for name, thing in _read(function)
    )


def _behind(function: FunctionType, seen: frozenset[CodeType] = frozenset()) -> set[CodeType]:
    """Return the user's functions in other files that a function calls, itself or by others of its file."""
    own, seen = function.__code__.co_filename, seen | {function.__code__}
    found = set[CodeType]()
    for one in (_definition(thing) for _, thing in _read(function)):
        if one is None or one.__code__ in seen or not is_users(one.__code__.co_filename):
            continue
        found |= _behind(one, seen) if one.__code__.co_filename == own else {one.__code__}
    return found


def _read(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function reads of its module, with the name there; of ``engine.verify`` the attribute."""
    name, thing = "", None
    for step in dis.get_instructions(function):
        if name and step.opname in _ATTRIBUTES:
            thing = inspect.getattr_static(thing, step.argval, None)  # a property is not to be run
            continue
        if name:
            yield name, getattr(thing, "__func__", thing)
        name = step.argval if step.opname == "LOAD_GLOBAL" else ""
        thing = function.__globals__.get(name)
