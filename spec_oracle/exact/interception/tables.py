"""Noise with steps as tables of its values: races of rounded noises are races of discrete ones.

In half precision a noise has some 20,000 values. Their probabilities are lengths of intervals of its uniform,
the ends of which are those of the intervals that are rounded to one value, taken back through the functions
before. Ties are won as in numpy: by the first of the largest (or smallest), or the first that is no number.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.exact.interception.maps import BRAIN, HALF, Affine, Chain, Exp, Floor, Log, Rounded, value_at

MOST_VALUES: Final = 70_000
"""Most values of one noise."""

_MOST_CELLS: Final = 10_000_000
"""Most values of all noises of a race, times the noises."""

_TAIL: Final = 2.0**-53
"""Beyond that part of the uniforms at either end no values are told apart."""

Table = tuple[Floats, Floats]
"""Values, which ascend, and their probabilities; both [n]."""


@lru_cache(maxsize=256)
def table(chain: Chain, low: float = 0.0, high: float = 1.0) -> Table | None:
    """Return the values of a chain of a uniform on (low, high), and their probabilities.

    None where there are too many, or no steps.
    """
    found = next(((n, step) for n, step in enumerate(chain) if isinstance(step, Floor | Rounded)), None)
    if found is None:
        return None
    first, step = found
    ends = sorted(
        value_at(chain[: first + 1], *end) for end in ((max(low, _TAIL), 1), (min(high, 1 - _TAIL), -1))
    )
    values = _grid(step, *ends)
    if values is None:
        return None
    with np.errstate(all="ignore"):
        cuts = _before(chain[:first], _edges(step, values))
        first_end, last_end = (low, high) if cuts[:1] <= cuts[-1:] else (high, low)
        cuts = np.clip(np.concatenate([[first_end], cuts, [last_end]]), low, high)
        chances = np.abs(np.diff(cuts)) / (high - low)
        different, place = np.unique(_after(chain[first + 1 :], values), return_inverse=True)
    return different, np.bincount(place.reshape(-1), chances).astype(np.float64)


def _grid(step: Floor | Rounded, low: float, high: float) -> Floats | None:
    """Return the values of a step between two of them."""
    if isinstance(step, Floor):
        return np.arange(low, high + 1) if high - low < MOST_VALUES else None
    if (step.digits, step.lowest) == (HALF.digits, HALF.lowest):
        numbers = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(float)
    elif (step.digits, step.lowest) == (BRAIN.digits, BRAIN.lowest):
        numbers = (np.arange(0x7F81, dtype=np.uint32) << 16).view(np.float32).astype(float)
    else:
        return None
    numbers = np.concatenate([-numbers[:0:-1], numbers])
    return numbers[(numbers >= low) & (numbers <= high)]


def _edges(step: Floor | Rounded, values: Floats) -> Floats:
    """Return where a step goes from each of its values to the next."""
    if isinstance(step, Floor):
        return values[1:]
    finite = np.where(np.isinf(values), np.copysign(math.ldexp(1.0, 2 - step.lowest), values), values)
    middles: Floats = (finite[1:] + finite[:-1]) / 2 + step.wraps
    return middles


def _before(chain: Chain, bounds: Floats) -> Floats:
    """Return the uniforms at which a chain without steps has given values."""
    for step in reversed(chain):
        match step:
            case Affine(offset, slope):
                bounds = (bounds - offset) / slope
            case Log():
                bounds = np.exp(bounds)
            case Exp():
                bounds = np.where(bounds > 0, np.log(np.maximum(bounds, 0.0)), -np.inf)
    return bounds


def _after(chain: Chain, values: Floats) -> Floats:
    """Return what a chain makes of values."""
    for step in chain:
        match step:
            case Affine(offset, slope):
                values = offset + slope * values
            case Log():
                values = np.log(values)
            case Exp():
                values = np.exp(values)
            case Floor():
                values = np.floor(values)
            case Rounded(digits, lowest):
                exponents = np.maximum(np.frexp(values)[1] - 1, lowest) - digits + 1
                values = np.ldexp(np.rint(np.ldexp(values, -exponents)), exponents)
                values = np.where(
                    np.abs(values) >= math.ldexp(1.0, 2 - lowest), np.sign(values) * np.inf, values
                )
    return values


def winner_law(tables: Sequence[Table], *, largest: bool) -> Floats | None:
    """Return the probability with which each of several independent noises wins; None for too many values."""
    sign = 1.0 if largest else -1.0
    grid = np.unique(np.concatenate([sign * values for values, _ in tables]))  # what is no number is last
    if len(grid) * len(tables) > _MOST_CELLS:
        return None
    chances = np.zeros((len(tables), len(grid)))
    for row, (values, masses) in zip(chances, tables, strict=True):
        row[np.searchsorted(grid, sign * values)] = masses
    at_most = np.minimum(chances.cumsum(axis=1), 1.0)
    below = np.concatenate([np.zeros((len(tables), 1)), at_most[:, :-1]], axis=1)
    earlier, later = np.ones_like(chances), np.ones_like(chances)
    np.cumprod(below[:-1], axis=0, out=earlier[1:])
    later[:-1] = np.cumprod(at_most[:0:-1], axis=0)[::-1]
    found: Floats = (chances * earlier * later).sum(axis=1)
    return found
