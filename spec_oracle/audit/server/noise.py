"""By how much reported log-probabilities are off: by rounding, and between equal requests."""

import math
from collections.abc import Iterable, Mapping

from spec_oracle.contracts.server import Token

FLOAT32_LOG = 1e-5
"""Rounding of a log-probability computed in float32 from logits of ordinary size, nats."""

SEEN_MASS = 1e-3
"""Tokens of less probability do not count for how much distributions vary: no test sees them."""

_DIGITS = 6


def largest_difference(first: Mapping[Token, float], second: Mapping[Token, float]) -> float:
    """Return the largest difference of log-probabilities that both list, nats."""
    seen = math.log(SEEN_MASS)
    both = [(first[token], second[token]) for token in first.keys() & second.keys()]
    return max((abs(a - b) for a, b in both if max(a, b) > seen), default=0.0)


def rounding(logs: Iterable[float]) -> float:
    """Return the error of log-probabilities by their digits, nats: half a last one where they are rounded."""
    values = list(logs)
    for digits in range(_DIGITS):
        if all(round(value, digits) == value for value in values):
            return 0.5 * 10.0**-digits
    return FLOAT32_LOG
