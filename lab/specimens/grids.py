"""The token rule by numbers that are cut to a grid: coarse ones are lossy by too little for samples.

The uniform of a test, that of a correction, or the noises of a race; and tests that older threads make.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array, by_accept, by_correction, residual
from lab.specimens.specimen import specimens_of
from spec_oracle.contracts import SamplerFunction

Cut = Callable[[Any], Any]
"""From a uniform to a number of the grid."""


def accepting(cut: Cut) -> SamplerFunction:
    """Return the rule whose acceptance test uses such a number."""

    def accept(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
        return bool(cut(rng.random()) * q[i, x[i]] < p[i, x[i]])

    return by_accept(accept)


specimens_of("exact", declared="token", function=accepting)(
    accept_by_eight_bits=("mutant: The uniform has eight bits", lambda u: np.floor(u * 256) / 256),
)
specimens_of(declared="token", function=accepting)(
    accept_by_24_bits=("control: A grid of 24 bits, as float32 has", lambda u: np.floor(u * 2**24) / 2**24),
    accept_by_a_scaled_uniform=("control: Scaled, shifted and back", lambda u: ((u * 3 + 1) - 1) / 3),
    accept_by_a_single=("control: The uniform is made a float32", lambda u: float(np.float32(u))),
    accept_by_a_cast_single=(
        "control: The uniform is cast to float32",
        lambda u: np.float64(u).astype(np.float32),
    ),
)


def racing(cut: Cut) -> SamplerFunction:
    """Return the rule whose correction has the largest of such scores: logarithms plus Gumbel noise."""

    def correct(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
        weights = residual(p[i], q[i])
        kept = np.flatnonzero(weights)
        return int(kept[np.argmax(cut(np.log(weights[kept]) + rng.gumbel(size=len(kept))))])

    return by_correction(correct)


specimens_of(declared="token", function=racing)(
    correct_by_a_single_race=(
        "control: The scores of a race are in float32",
        lambda scores: scores.astype(np.float32),
    ),
)


@cache
def _pool() -> ThreadPoolExecutor:
    """Return this process's threads: specimens are sent to other processes, and threads cannot be."""
    return ThreadPoolExecutor(2)


def in_a_pool(accepts: Callable[[Any, float], bool]) -> SamplerFunction:
    """Return the rule whose threads, older than any call, compare uniforms sampled by the caller."""

    def accept(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
        return _pool().submit(accepts, rng.random(), p[i, x[i]] / q[i, x[i]]).result()

    return by_accept(accept)


specimens_of(declared="token", function=in_a_pool)(
    accept_in_a_pool=("control: They compare them with the ratio", lambda u, ratio: bool(u < ratio)),
)
