"""Random numbers that code draws by itself: which line of the user's code asks for them.

Code that is handed its random decisions must not ask numpy, ``random`` or torch for others. `watched_draws`
stands between: seeds are ignored, so that code whose random numbers count does something else when it is
called again, and every line of the user's code that asks for a number is noted.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Final, ParamSpec, TypeVar

from spec_oracle.exact.interception.edge_draws import Ordinary, drawn_from
from spec_oracle.exact.interception.sources import Source
from spec_oracle.exact.interception.symbols import Scalar
from spec_oracle.exact.representatives import Law
from spec_oracle.places import is_users, running_at

P = ParamSpec("P")
R = TypeVar("R")

_ROOM: Final = str(Path(__file__).parent)
_OF_RANDOMNESS: Final = ("numpy", "torch")
"""Packages through which the user's code asks for random numbers."""


@dataclass
class WatchedDraws:
    """A `Source` of ordinary numbers that notes the ``lines`` of the user's code which ask for them.

    Lines that call another package, which asks for them, are ``indirect``: a solver may start at random.
    """

    source: Source
    lines: list[str] = field(default_factory=list)
    indirect: list[str] = field(default_factory=list)

    def uniform(self, bits: int = 53, *, zero: bool = True) -> Scalar:
        """Note the line, and draw."""
        self._note()
        return self.source.uniform(bits, zero=zero)

    def integer(self, count: int) -> Scalar:
        """Note the line, and draw."""
        self._note()
        return self.source.integer(count)

    def decide(self, weights: Sequence[float] | Law) -> int:
        """Note the line, and draw."""
        self._note()
        return self.source.decide(weights)

    def later(self, choose: Callable[[], int]) -> Scalar:
        """Note the line, and draw."""
        self._note()
        return self.source.later(choose)

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:
        """Return the real function, which notes the line first."""
        function = self.source.other(name, real)

        def noted(*arguments: P.args, **keywords: P.kwargs) -> R:
            self._note()
            return function(*arguments, **keywords)

        return noted

    def _note(self) -> None:
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the documented way to walk one's own stack)
        while frame is not None and _passes_on(frame.f_code.co_filename):
            frame = frame.f_back
        is_direct = frame is not None and is_users(frame.f_code.co_filename)
        (self.lines if is_direct else self.indirect).append(running_at(frame))


@lru_cache(maxsize=4096)
def _passes_on(filename: str) -> bool:
    """Whether a source file is of this room, or of a library that is asked for random numbers."""
    parts = Path(filename).parts
    package = parts[parts.index("site-packages") + 1] if "site-packages" in parts else ""
    return filename.startswith((_ROOM, "<")) or package in _OF_RANDOMNESS


@contextmanager
def watched_draws(array: str = "numpy", seed: int = 0) -> Iterator[WatchedDraws]:
    """Watch which code asks for random numbers; what it gets comes from a stream of the watch's own."""
    watched = WatchedDraws(Ordinary(seed))
    with drawn_from(watched, array, seed):
        yield watched
