"""Number types: rows that are exact in them, and how far rounding may move a distribution.

Every probability of the input is a number of its type, and every row sums to exactly one. So the target is
exact, and only results of the code's own arithmetic are rounded.

What rounding explains. Let u be the unit roundoff of the type in which code computes. A completion meets at
most L + 1 decisions. The accept probability at position i is a quotient of two products of i numbers or,
with the block rule, of sums of such numbers: at most 2 i + 4 roundings, so off by at most (2 i + 4) u. A
token is sampled from weights that are differences, sums and quotients of numbers of the rows: at most 4
roundings for each weight and log2(V) for their sum (added up in pairs, as the libraries do), so their
distribution is off by at most (4 + 2 log2 V) u. Code may take rows as logits: log p is off by u |log p|, so
p by a share of that, and the sum over a row by its entropy times u, at most ln V u; exponential, sum and
quotient add 3 u; twice, since target and draft are rows. Added up over i = 0..L, and since the errors of one
probability move mass twice (there and away), half of which is total variation:

    total variation <= ((L + 1) (L + 14 + 2 ln V) + 2 log2 V) u.

Inversion of a cumulative sum compares numbers just below one, which are rounded to u: the probability of
every single token may be off by 2 u, whatever it is. That is taken off each token before the rest is added
up.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

DIGITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Binary digits of the significand, the leading one included."""

LOWEST: Final = {"float64": -40, "float32": -40, "float16": -24, "bfloat16": -24}
"""Probabilities are multiples of 2 to this power: those of float16 reach no further, and few laws differ."""


def unit_roundoff(dtype: str) -> float:
    """Return the largest relative error of a rounded number."""
    return 2.0 ** -DIGITS[dtype]


def tolerance(dtype: str, draft_length: int, vocab_size: int) -> float:
    """Return the total variation that rounding explains; see the module."""
    of_decisions = (draft_length + 1) * (draft_length + 14 + 2 * math.log(vocab_size))
    roundings = of_decisions + 2 * math.log2(vocab_size)
    return roundings * unit_roundoff(dtype)


def exact_row(weights: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Return a law [V] nearly in proportion to ``weights``: exact in the type, and of sum exactly one.

    Tokens of positive weight keep a positive probability. Few tokens of a type with few digits cannot be as
    unlikely as many can: what is left of one must be a number of the type, too.

    >>> exact_row(np.array([0.1, 0.3, 0.0, 1e-9]), "bfloat16").tolist()
    [0.2490234375, 0.75, 0.0, 0.0009765625]
    """
    digits = DIGITS[dtype]
    for power in range(-LOWEST[dtype], 0, -1):
        counts = _counts(weights, 1 << power, digits)
        if counts is not None:
            row: NDArray[np.float64] = np.ldexp(counts, -power)
            return row
    raise AssertionError(f"{len(weights)} tokens have no distribution in {dtype}")


def _counts(weights: NDArray[np.float64], units: int, digits: int) -> NDArray[np.int64] | None:
    """Return so many units, shared out in numbers of so many digits; None where this way does not work."""
    law = weights / weights.sum() * units
    tiny, others = (law > 0) & (law < 2), law >= 2
    counts = tiny.astype(np.int64)
    counts[others] = law[others] * ((units - int(tiny.sum())) / law[others].sum())
    steps = _steps(counts, digits)
    counts -= counts % steps
    # Every token lost less than its step: one step more for some of them, the largest first, gives it back.
    missing = units - int(counts.sum())
    for step in sorted(set(steps[counts > 0].tolist()), reverse=True):
        chosen = np.flatnonzero((steps == step) & (counts > 0))[: max(missing // step, 0)]
        counts[chosen] += step
        missing -= step * len(chosen)
    return counts if missing == 0 else None


def _steps(counts: NDArray[np.int64], digits: int) -> NDArray[np.int64]:
    """Return the spacing of numbers with so many digits at each of the counts."""
    lengths = np.frexp(counts.astype(np.float64))[1]
    steps: NDArray[np.int64] = np.left_shift(1, np.maximum(lengths - digits, 0))
    return steps
