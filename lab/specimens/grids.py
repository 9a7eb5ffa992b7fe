"""The token rule by numbers that are cut to a grid: coarse ones are lossy by too little for samples.

The uniform of a test, that of a correction, or the noises of a race; and tests that older threads make.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array, by_accept, by_correction, invert, residual
from lab.specimens.specimen import specimens_of
from spec_oracle.contracts import SamplerFunction

Cut = Callable[[Any], Any]
"""From a uniform to a number of the grid."""


def accepting(cut: Cut) -> SamplerFunction:
    """Return the rule whose acceptance test uses such a number."""

    def accept(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
        return bool(cut(rng.random()) * q[i, x[i]] < p[i, x[i]])

    return by_accept(accept)


def correcting(cut: Cut) -> SamplerFunction:
    """Return the rule whose correction is chosen by such a number."""

    def correct(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
        return invert(residual(p[i], q[i]), cut(rng.random()))

    return by_correction(correct)


specimens_of("exact", declared="token", function=accepting)(
    accept_by_two_decimals=("mutant: The uniform is rounded to two decimals", lambda u: np.round(u, 2)),
    accept_in_half_precision=(
        "mutant: The uniform passes through float16",
        lambda u: np.array([u]).astype(np.float16)[0],
    ),
)
specimens_of("exact", declared="token", function=correcting)(
    correct_by_two_decimals=(
        "mutant: The uniform of the correction is rounded to two decimals",
        lambda u: np.round(u, 2),
    ),
)
specimens_of(declared="token", function=accepting)(
    accept_by_twelve_decimals=("control: Rounded to twelve decimals", lambda u: np.round(u, 12)),
    accept_by_a_single=("control: The uniform is made a float32", lambda u: float(np.float32(u))),
)


def racing(cut: Cut) -> SamplerFunction:
    """Return the rule whose correction has the largest of such scores: logarithms plus Gumbel noise."""

    def correct(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
        weights = residual(p[i], q[i])
        kept = np.flatnonzero(weights)
        return int(kept[np.argmax(cut(np.log(weights[kept]) + rng.gumbel(size=len(kept))))])

    return by_correction(correct)


specimens_of("exact", declared="token", function=racing)()
specimens_of(declared="token", function=racing)()


@cache
def _pool() -> ThreadPoolExecutor:
    """Return this process's threads: specimens are sent to other processes, and threads cannot be."""
    return ThreadPoolExecutor(2)


def in_a_pool(accepts: Callable[[Any, float], bool]) -> SamplerFunction:
    """Return the rule whose threads, older than any call, compare uniforms sampled by the caller."""

    def accept(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
        return _pool().submit(accepts, rng.random(), p[i, x[i]] / q[i, x[i]]).result()

    return by_accept(accept)


specimens_of("exact", declared="token", function=in_a_pool)()
specimens_of(declared="token", function=in_a_pool)(
    accept_in_a_pool=("control: They compare them with the ratio", lambda u, ratio: bool(u < ratio)),
)
