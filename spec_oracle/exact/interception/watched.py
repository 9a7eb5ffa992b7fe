"""Which branches of the code under test run: in calls that are traced, and in ordinary ones.

Code may see that its random numbers are traced: they are symbols, no floats, and lie in arrays of another
class. ``try: fast(u) except TypeError: slow(u)`` runs ``slow`` when it is traced, and what is found says
nothing of ``fast``. So it is recorded which instruction, and which line, ran right after which, in files of
the code under test alone. Ordinary calls may take no step that traced calls with equal arguments never took.

What is decided without a branch is not seen, nor what compiled code does: it has no lines.

>>> def ordinary(u):
...     return round(u) if isinstance(u, float) else u > 0.5
>>> plain, other = Watch(lambda code: code is ordinary.__code__), Watch(lambda code: True)
>>> with plain:
...     _ = ordinary(0.7)
>>> with other:
...     _ = ordinary("a") if False else ordinary(1)
>>> len(plain.steps - other.steps) > 0
True
"""

import dis
import itertools
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Self

from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception.errors import is_foreign, short

_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = ("site-packages", "dist-packages")
_LIBRARIES: Final = ("array_api_compat", "numba", "triton", "jax", "jaxlib", "spec_oracle")
"""Besides those of `is_foreign`: they choose by the type of an array what to do with it."""

_OURS: Final = str(Path(__file__).parents[2] / "contracts")

_SHIFT: Final = 21
_LINE: Final = 1 << 2 * _SHIFT
_CODE: Final = 2 * _SHIFT + 1
"""A step is one number: the code object's, whether it is of lines, and the places before and after."""

_MOST_INSTRUCTIONS: Final = 3_000
"""Instructions of one call that are recorded: of what goes on longer, such as long loops, the lines are."""


class Branches(Enum):
    """Where the branches of a code object are: what must be recorded to see which way it went."""

    NONE = "none"
    BETWEEN_LINES = "between lines"
    WITHIN_LINES = "within lines"


_branches: list[Branches] = []
_codes: list[CodeType] = []
_numbers: dict[int, int] = {}


class UnlikeError(NotTracedError):
    """Ordinary calls took branches that no traced call took: what was traced says nothing of these."""


class Watch:
    """Records the ``steps`` that code takes inside the context, in this thread and in those it starts.

    ``is_watched`` says of which code objects: those of the code under test, unless told otherwise.
    """

    def __init__(self, is_watched: Callable[[CodeType], bool] | None = None) -> None:
        self.steps: set[int] = set()
        self._is_watched = is_watched or _is_under_test
        self._known: dict[int, int | None] = {}
        self._before: Any = None
        self._gettrace = sys.gettrace

    def __enter__(self) -> Self:
        """Begin."""
        self._before, self._gettrace = sys.gettrace(), sys.gettrace
        # Code that asks is not to know.
        sys.gettrace = lambda: self._before
        threading.settrace(self._entered)
        sys.settrace(self._entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; what watched before goes on."""
        sys.gettrace = self._gettrace
        sys.settrace(self._before)
        threading.settrace(self._before)

    def _entered(self, frame: FrameType, event: str, _: Any) -> Any:
        """Watch a call, if it is one of the code under test: what `sys.settrace` calls."""
        code = frame.f_code
        number = self._known.get(id(code), -1)
        if number == -1:
            number = self._known[id(code)] = _number(code) if self._is_watched(code) else None
        if number is None or event != "call":
            return None
        branches = _branches[number]
        if branches is Branches.NONE:
            self.steps.add(number << _CODE)
            return None
        frame.f_trace_opcodes = branches is Branches.WITHIN_LINES
        return self._follower(frame, number << _CODE)

    def _follower(self, frame: FrameType, base: int) -> Any:
        """Return what `sys.settrace` calls at every line of a call, and at every instruction if asked to."""
        add, count = self.steps.add, 0
        place = line = -1

        def follow(_: FrameType, event: str, __: Any) -> Any:
            nonlocal place, line, count
            if event == "opcode":
                now = frame.f_lasti
                add(base | place + 1 << _SHIFT | now)
                place = now
                count += 1
                if count > _MOST_INSTRUCTIONS:
                    frame.f_trace_opcodes = False
            elif event == "line":
                now = frame.f_lineno
                add(base | _LINE | line + 1 << _SHIFT | now)
                line = now
            return follow

        return follow


def places_of(steps: Iterable[int]) -> str:
    """Return the lines at which steps begin, as ``lines 3, 5 of file.py``."""
    lines: dict[str, set[int]] = {}
    for step in steps:
        code = _codes[step >> _CODE]
        before, now = (step >> _SHIFT) % (1 << _SHIFT) - 1, step % (1 << _SHIFT)
        line = (before if before > 0 else now) if step & _LINE else _line_of(code, max(before, 0))
        lines.setdefault(code.co_filename, set()).add(line)
    return "; ".join(
        f"line{'s' * (len(some) > 1)} {', '.join(map(str, sorted(some)[:4]))}"
        f"{', ...' * (len(some) > 4)} of {short(Path(name))}"
        for name, some in sorted(lines.items())
    )


def _line_of(code: CodeType, offset: int) -> int:
    positions = list(code.co_positions())
    return positions[offset // 2][0] or code.co_firstlineno


def _number(code: CodeType) -> int:
    """Return the number of a code object, which is kept, so that no other one gets its id."""
    if id(code) not in _numbers:
        _numbers[id(code)] = len(_codes)
        _codes.append(code)
        _branches.append(branches_of(code))
    return _numbers[id(code)]


def branches_of(code: CodeType) -> Branches:
    """Return where the branches of a code object are; loops alone are within a line if they are short.

    >>> branches_of((lambda u: u + 1).__code__).value
    'none'
    >>> branches_of((lambda u: u if u else 1).__code__).value
    'within lines'
    """
    found = Branches.BETWEEN_LINES if code.co_exceptiontable else Branches.NONE
    lines = {start: line for start, _, line in code.co_lines()}
    instructions, line = list(dis.get_instructions(code)), 0
    line_at: dict[int, int | None] = {}
    for one in instructions:
        line = lines.get(one.offset, line)  # type: ignore[assignment]  # None where there is no line
        line_at[one.offset] = line
    for one, following in itertools.pairwise(instructions):
        if "JUMP" not in one.opname or "IF" not in one.opname:
            found = Branches.BETWEEN_LINES if one.opname == "FOR_ITER" else found
            continue
        here, there, next_one = (line_at[at] for at in (one.offset, int(one.argval), following.offset))
        if next_one in (here, there):
            return Branches.WITHIN_LINES
        found = Branches.BETWEEN_LINES
    return found


def _is_under_test(code: CodeType) -> bool:
    return _is_watched_file(code.co_filename)


@lru_cache(maxsize=4096)
def _is_watched_file(filename: str) -> bool:
    parts = Path(filename).parts
    if not is_foreign(filename) or filename.startswith(_OURS):
        return False
    installed = next((parts.index(name) for name in _INSTALLED if name in parts), None)
    if installed is not None:
        return parts[installed + 1].removesuffix(".py") not in _LIBRARIES
    return not filename.startswith(_STANDARD)
