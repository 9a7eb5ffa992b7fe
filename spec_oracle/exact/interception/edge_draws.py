"""Randomness at its edges: uniforms that are exactly 0, or the largest number below 1, and words alike.

Both can be drawn, about once in 2^53 (float64) or 2^24 (float32) times: too rarely for any test by sampling,
often enough for a service. Every function that `spec_oracle.exact.interception.libraries` knows as a formula
of uniforms gets such uniforms; the others draw as always. What comes out is what the library could return:

* numpy, ``random`` and torch document uniforms on [0, 1), as multiples of 2^-53, or of 2^-24 for float32.
* numpy's exponential is 0 when the bits that it takes are all 0, and finite always; so is Python's.
* numpy draws again for a Gumbel noise whose uniform is 0, so it is finite at both ends.
* Choices with probabilities invert a uniform.
* Integers of 24 bits and more stand for uniforms once they are divided; smaller ones are drawn as always.
* torch documents that its exponential excludes 0: its smallest here comes from the smallest uniform above 0.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module

import numpy as np

from spec_oracle.exact.interception.libraries.numpy_random import drawn_by_numpy
from spec_oracle.exact.interception.libraries.python import drawn_by_python
from spec_oracle.exact.interception.sources import Ordinary, Source, active_source

_WORD = 2**24
"""Integers from which on they may stand for uniforms, as random words do."""


class Edges(Ordinary):
    """A `Source` whose uniforms are smallest, ordinary, or largest, in equal parts."""

    generator: object
    """A generator to hand over, of the library asked for."""
    drawn = 0
    """How many uniforms at an edge have been drawn so far, from any generator."""

    def multiple(self, first: int, last: int) -> int:
        """Draw a whole number, the first or the last one often."""
        found: int = self._ordinary.choice((first, last, super().multiple(first, last)))
        self.drawn += found in (first, last)
        return found

    def integer(self, count: int) -> int:
        """Draw one of 0..count-1, the first or the last of many often."""
        return self.multiple(0, count - 1) if count >= _WORD else super().integer(count)


@contextlib.contextmanager
def edge_draws(array: str, seed: int) -> Iterator[Edges]:
    """Let all generators, global ones too, draw uniforms at the edges; ``array`` is "numpy" or "torch"."""
    source = Edges(seed)
    with drawn_from(source, array, seed):
        source.generator = np.random.default_rng(seed)
        if array == "torch":
            source.generator = import_module("torch").Generator().manual_seed(seed)
        yield source


@contextlib.contextmanager
def drawn_from(source: Source, array: str, seed: int) -> Iterator[None]:
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
