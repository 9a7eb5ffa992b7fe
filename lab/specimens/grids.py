"""The token rule by uniforms that are cut to a grid: coarse ones are lossy by too little for samples."""

from collections.abc import Callable
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


specimens_of("exact", rule="token", function=accepting)(
    accept_by_two_decimals=("mutant: The uniform is rounded to two decimals", lambda u: np.round(u, 2)),
    accept_by_rounded_float=("mutant: Python rounds the uniform to three decimals", lambda u: round(u, 3)),
    accept_by_thousandths=(
        "mutant: The uniform is one of a thousand, cut downwards",
        lambda u: np.floor(u * 1000) / 1000,
    ),
    accept_by_percent=(
        "mutant: The uniform is a whole percentage, cut upwards",
        lambda u: np.ceil(u * 100) / 100,
    ),
    accept_by_eight_bits=("mutant: The uniform has eight bits", lambda u: np.rint(u * 256) / 256),
    accept_in_half_precision=(
        "mutant: The uniform passes through float16",
        lambda u: np.array([u]).astype(np.float16)[0],
    ),
)
specimens_of("exact", rule="token", function=correcting)(
    correct_by_two_decimals=(
        "mutant: The uniform of the correction is rounded to two decimals",
        lambda u: np.round(u, 2),
    ),
)
specimens_of(rule="token", function=accepting)(
    accept_by_twelve_decimals=("control: Rounded to twelve decimals", lambda u: np.round(u, 12)),
    accept_by_24_bits=("control: A grid of 24 bits, as float32 has", lambda u: np.floor(u * 2**24) / 2**24),
    accept_by_a_scaled_uniform=("control: Scaled, shifted and back", lambda u: ((u * 3 + 1) - 1) / 3),
)
