"""The token rule by numbers that are cut to a fine grid: the uniform of a test, or the noises of a race."""

from collections.abc import Callable
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


specimens_of(declared="token", function=accepting)(
    accept_by_24_bits=("control: A grid of 24 bits, as float32 has", lambda u: np.floor(u * 2**24) / 2**24),
    accept_by_a_scaled_uniform=("control: Scaled, shifted and back", lambda u: ((u * 3 + 1) - 1) / 3),
    accept_by_a_single=("control: The uniform is made a float32", lambda u: float(np.float32(u))),
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
