"""Random numbers other than traced ones: extreme ones, and ordinary ones whose askers are noted.

*Edges* are uniforms that are exactly 0, or the largest number below 1. Both can be drawn, about once in 2^53
(float64) or 2^24 (float32) times: too rarely for any test by sampling, often enough for a service. Functions
that `spec_oracle.exact.interception.libraries` knows as a formula of uniforms get such uniforms; the others
draw as always. What comes out is what the library could return:

* numpy, ``random`` and torch document uniforms on [0, 1), as multiples of 2^-53, or of 2^-24 for float32.
* numpy's exponential is 0 when the bits that it takes are all 0, and finite always; so is Python's.
* numpy draws again for a Gumbel noise whose uniform is 0, so it is finite at both ends.
* Choices with probabilities invert a uniform; integers are drawn as always.
* torch documents that its exponential excludes 0: its smallest here comes from the smallest uniform above 0.

*Watched draws*: code that is handed its random decisions must not ask numpy, ``random`` or torch for others.
Seeds are ignored, so that code whose random numbers count does something else when it is called again.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Final, ParamSpec, TypeVar

import numpy as np

from spec_oracle.exact.interception.libraries.numpy_random import drawn_by_numpy
from spec_oracle.exact.interception.libraries.python_random import drawn_by_python
from spec_oracle.exact.interception.run import OwnRandom
from spec_oracle.exact.interception.sources import Source, active_source
from spec_oracle.exact.representatives import Law
from spec_oracle.places import is_users, running_at

P = ParamSpec("P")
R = TypeVar("R")

_ROOM: Final = str(Path(__file__).parent)
_OF_RANDOMNESS: Final = ("numpy", "torch")
"""Packages through which the user's code asks for random numbers."""


class _Ordinary:
    """A `Source` of random numbers as libraries have them; seeds that code gives count for nothing."""

    def __init__(self, seed: int) -> None:
        self._ordinary = OwnRandom(seed)

    def multiple(self, first: int, last: int) -> int:
        """Draw a whole number."""
        return self._ordinary.randint(first, last)

    def uniform(self, bits: int = 53, *, zero: bool = True) -> float:
        """Draw a multiple of 2^-bits."""
        return float(self.multiple(int(not zero), 2**bits - 1) / 2**bits)

    def integer(self, count: int) -> int:
        """Draw one of 0..count-1."""
        return self._ordinary.randrange(count)

    def decide(self, weights: Sequence[float] | Law) -> int:
        """Draw an index by inversion, as numpy and ``random`` do: the first or last possible at an edge."""
        cumulative = np.cumsum(weights)
        return int(np.searchsorted(cumulative / cumulative[-1], self.uniform(), side="right"))

    def later(self, choose: Callable[[], int]) -> int:
        """Choose at once."""
        return choose()

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002
        """Leave it as it is."""
        return real


class _Edges(_Ordinary):
    """A `Source` whose uniforms are smallest, ordinary, or largest, in equal parts."""

    drawn = 0

    def multiple(self, first: int, last: int) -> int:
        """Draw a whole number, the first or the last one often."""
        found: int = self._ordinary.choice((first, last, super().multiple(first, last)))
        self.drawn += found in (first, last)
        return found


@dataclass(frozen=True)
class EdgeDraws:
    """A ``generator`` to hand over, of the library asked for."""

    generator: object
    _source: _Edges

    @property
    def drawn(self) -> int:
        """How many uniforms at an edge have been drawn so far, from any generator."""
        return self._source.drawn


@contextlib.contextmanager
def edge_draws(array: str, seed: int) -> Iterator[EdgeDraws]:
    """Let all generators, global ones too, draw uniforms at the edges; ``array`` is "numpy" or "torch"."""
    source = _Edges(seed)
    with _drawn_from(source, array, seed):
        generator: object = np.random.default_rng(seed)
        if array == "torch":
            generator = import_module("torch").Generator().manual_seed(seed)
        yield EdgeDraws(generator, source)


@contextlib.contextmanager
def _drawn_from(source: Source, array: str, seed: int) -> Iterator[None]:
    """Let the random functions and the generators of numpy, ``random`` and torch draw from a source."""
    torch_draws: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    if array == "torch" or "torch" in sys.modules:
        from spec_oracle.exact.interception.libraries.torch_mode import drawn_by_torch

        torch_draws = drawn_by_torch
    token = active_source.set(source)
    try:
        with drawn_by_numpy(seed), drawn_by_python(), torch_draws():
            yield
    finally:
        active_source.reset(token)


class WatchedDraws(_Ordinary):
    """A `Source` of ordinary numbers that notes the ``lines`` of the user's code which ask for them.

    Lines that call another package, which asks for them, are ``indirect``: a solver may start at random.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines: list[str] = []
        self.indirect: list[str] = []

    def multiple(self, first: int, last: int) -> int:
        """Note the line, and draw."""
        self._note()
        return super().multiple(first, last)

    def integer(self, count: int) -> int:
        """Note the line, and draw."""
        self._note()
        return super().integer(count)

    def other(self, name: str, real: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002
        """Return the real function, which notes the line first."""

        def noted(*arguments: P.args, **keywords: P.kwargs) -> R:
            self._note()
            return real(*arguments, **keywords)

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


@contextlib.contextmanager
def watched_draws(array: str = "numpy", seed: int = 0) -> Iterator[WatchedDraws]:
    """Watch which code asks for random numbers; what it gets comes from a stream of the watch's own."""
    watched = WatchedDraws(seed)
    with _drawn_from(watched, array, seed):
        yield watched
