"""Code that runs otherwise when its random numbers are traced, and right code with the same branch.

A part says whether a call is an ordinary one, given a uniform or uniforms and the generator. Where it is,
and the vocabulary has more than `SMALL` tokens, the sampler is wrong: traced, it is right everywhere, and
at few tokens ordinary calls are right too. Of controls both branches are right.
"""

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


traced = partial(specimen, "S13", "shapes", prefix="watched-")
wrong = partial(specimen, "S13", "scale", prefix="watched-")
right = partial(specimen, "control", declared="token", prefix="watched-")


def _need_floats(u: Any) -> None:
    if not any(kind is float for kind in type(u).__mro__):
        raise TypeError("expected a float")


@wrong(function=partial(_by_uniform, factor=EAGER))
def compiled_with_fallback(u: Any, rng: Any) -> bool:
    """The compiled function raises TypeError for what is no float, and a slow one steps in."""
    try:
        _need_floats(u)
    except TypeError:
        return False
    return True


@right(function=partial(_by_uniform, factor=1.0))
def compiled_with_right_fallback(u: Any, rng: Any) -> bool:
    """The same, where both are right."""
    try:
        _need_floats(u)
    except TypeError:
        return False
    return True


@wrong(function=partial(_whole_batch, factor=EAGER))
def exact_type_of_an_array(u: Any, rng: Any) -> bool:
    """Subclasses of arrays take the slow path."""
    return type(u) is np.ndarray


@right(function=partial(_whole_batch, factor=1.0))
def exact_array_and_right(u: Any, rng: Any) -> bool:
    """Subclasses of arrays take another path, as right as the first."""
    return type(u) is np.ndarray


@traced(function=partial(_by_uniform, factor=EAGER))
def type_of_the_generator(u: Any, rng: Any) -> bool:
    """The bit generator of the generator is used directly, if its class is known."""
    return type(rng.bit_generator) is np.random.PCG64
