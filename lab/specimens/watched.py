"""Code that runs otherwise when its random numbers are traced, and right code with the same branch.

A part says whether a call is an ordinary one, given a uniform or uniforms and the generator. Where it is,
and the vocabulary has more than `SMALL` tokens, the sampler is wrong: traced, it is right everywhere, and
at few tokens ordinary calls are right too. Of controls both branches are right.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from lab.specimens.foreign.rows import Array, by_accept, draw, from_residual
from lab.specimens.specimen import specimen
from spec_oracle.contracts import SamplerFunction

SMALL: Final = 40
"""Most tokens at which the wrong branches are right."""

EAGER: Final = 1.6
"""By how much the ratio is too high where a branch is wrong."""

Ordinary: TypeAlias = Callable[[Any, Any], bool]


def _by_uniform(is_ordinary: Ordinary, factor: float, vocab: int = SMALL) -> SamplerFunction:
    """Return the token rule whose accept test asks the uniform; ratios are wrong in ordinary calls."""

    def accept(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
        u, ratio = rng.random(), p[i, x[i]] / q[i, x[i]]
        if p.shape[1] > vocab and is_ordinary(u, rng):
            ratio = ratio * factor
        return bool(u < ratio)

    return by_accept(accept)


def _whole_batch(is_ordinary: Ordinary, factor: float) -> SamplerFunction:
    """Return the token rule that takes all its accept uniforms as one array, and asks that."""

    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        batch, length = x.shape
        u = rng.random((batch, length))
        tokens = np.full((batch, length + 1), -1)
        for b in range(batch):
            scale = 1.0
            if is_ordinary(u, rng):
                scale = factor if p.shape[2] > SMALL else 1.0
            for i, token in enumerate(x[b]):
                if not u[b, i] < scale * p[b, i, token] / q[b, i, token]:
                    tokens[b, i] = from_residual(x[b], q[b], p[b], i, rng)
                    break
                tokens[b, i] = token
            else:
                tokens[b, -1] = draw(p[b, -1], rng)
        return tokens, (tokens >= 0).sum(axis=1) - 1

    return verify


wrong = partial(specimen, "S10", "shapes", prefix="watched-")
right = partial(specimen, "control", declared="token", prefix="watched-")
wrong_uniform = partial(wrong, function=partial(_by_uniform, factor=EAGER))
right_uniform = partial(right, function=partial(_by_uniform, factor=1.0))
wrong_array = partial(wrong, function=partial(_whole_batch, factor=EAGER))
right_array = partial(right, function=partial(_whole_batch, factor=1.0))


# The number itself.


@wrong_uniform()
def exact_type_of_a_uniform(u: Any, rng: Any) -> bool:
    """A fast path for plain floats accepts too often."""
    return type(u) is float


@right_uniform()
def exact_type_and_right(u: Any, rng: Any) -> bool:
    """A path for plain floats that is right."""
    return type(u) is float


# Arrays of numbers.


@wrong_array()
def exact_type_of_an_array(u: Any, rng: Any) -> bool:
    """Subclasses of arrays take the slow path."""
    return type(u) is np.ndarray


@right_array()
def exact_array_and_right(u: Any, rng: Any) -> bool:
    """Subclasses of arrays take another path, as right as the first."""
    return type(u) is np.ndarray


# What goes on around the call.


@wrong_uniform()
def type_of_the_generator(u: Any, rng: Any) -> bool:
    """The bit generator of the generator is used directly, if its class is known."""
    return type(rng.bit_generator) is np.random.PCG64


@wrong_uniform()
def traced_lines_are_right(u: Any, rng: Any) -> bool:
    """While a debugger follows the lines, a slow path is taken."""
    return sys.gettrace() is None


@right_uniform()
def traced_lines_are_no_matter(u: Any, rng: Any) -> bool:
    """The same, where both paths are right."""
    return sys.gettrace() is None
