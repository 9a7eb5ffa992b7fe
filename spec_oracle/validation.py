"""Checks of arguments that public functions share: each returns the value, or names argument and value.

Of statistical tests these are laws, counts, rates and numbers of draws.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from spec_oracle.arrays import Booleans, Floats, Integers, Numbers
from spec_oracle.errors import InvalidInputError, unknown

T = TypeVar("T")

MASS_TOLERANCE = 1e-6
"""How far a law's total may be from one: more than float32 rounding leaves, less than any test can see."""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer of any library, and no bool."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def is_real(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a real number of any library, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def require_whole(value: object, name: str, least: int = 1) -> int:
    """Return a whole number of at least ``least``."""
    if not is_whole(value):
        raise InvalidInputError(f"{name}: expected a whole number, got {value!r:.80}")
    if value < least:
        raise InvalidInputError(f"{name}: expected at least {least}, got {value!r}")
    return int(value)


def require_positive(value: object, name: str) -> float:
    """Return a number above zero, and finite."""
    if not (is_real(value) and 0 < value < float("inf")):
        raise InvalidInputError(f"{name}: expected a positive number, got {value!r}")
    return float(value)


def require_share(value: object, name: str) -> float:
    """Return a number in [0, 1]."""
    if not (is_real(value) and 0 <= value <= 1):
        raise InvalidInputError(f"{name}: expected a number in [0, 1], got {value!r}")
    return float(value)


def require_one_of(value: T, name: str, known: Iterable[T]) -> T:
    """Return one of the ``known`` values."""
    if value not in (choices := list(known)):
        raise InvalidInputError(f"{name}: {unknown(str(value), map(str, choices))}")
    return value


def require_instance_of(value: object, name: str, kind: type[T]) -> T:
    """Return an object of class ``kind``."""
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name}: expected {kind.__name__}, got {value!r:.80}")
    return value


def require_law(probabilities: npt.ArrayLike, name: str = "probabilities") -> Floats:
    """Return a law as float64 [V], renormalised to total one.

    Raises `InvalidInputError` for anything but one axis of finite, non-negative numbers that sum to one
    within `MASS_TOLERANCE`.
    """
    law = require_numbers(probabilities, name)
    if law.ndim != 1 or law.size == 0:
        raise InvalidInputError(f"{name}: expected shape [V] with V >= 1, got {law.shape}")
    _reject_where(~np.isfinite(law) | (law < 0), law, name, "expected a finite, non-negative probability")
    total = float(law.sum())
    if abs(total - 1) > MASS_TOLERANCE:
        raise InvalidInputError(f"{name}: expected a total of 1 within {MASS_TOLERANCE}, got {total!r}")
    return law / total


def require_numbers(values: npt.ArrayLike, name: str) -> Floats:
    """Return ``values`` as float64; raises `InvalidInputError` for anything but numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name}: expected numbers, got {values!r:.80}") from None


def require_counts(counts: npt.ArrayLike, num_outcomes: int, name: str = "counts") -> Integers:
    """Return counts as int64 [..., V] with V = ``num_outcomes``.

    Raises `InvalidInputError` for another last axis, for non-integers and for negative counts.
    """
    try:
        array = np.asarray(counts)
    except ValueError:  # ragged
        raise InvalidInputError(f"{name}: expected integers, got {counts!r:.80}") from None
    if array.ndim == 0 or array.shape[-1] != num_outcomes:
        raise InvalidInputError(f"{name}: expected a last axis of {num_outcomes}, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(f"{name}: expected integers, got {array.dtype}")
    _reject_where(array < 0, array, name, "expected a non-negative count")
    return array.astype(np.int64)


def require_sample(counts: npt.ArrayLike, num_outcomes: int, name: str = "counts") -> Integers:
    """Return the counts of one sample as int64 [V]; as `require_counts`, and at least one draw."""
    array = require_counts(counts, num_outcomes, name)
    if array.ndim != 1:
        raise InvalidInputError(f"{name}: expected shape [V], got {array.shape}")
    if array.sum() == 0:
        raise InvalidInputError(f"{name}: expected at least one draw, got 0")
    return array


def require_rate(rate: float, name: str) -> float:
    """Return an error rate; raises `InvalidInputError` unless it lies strictly between 0 and 1."""
    if not (is_real(rate) and 0 < rate < 1):
        raise InvalidInputError(f"{name}: expected a rate strictly between 0 and 1, got {rate!r}")
    return float(rate)


def require_draws(draws: int) -> int:
    """Return a number of draws; raises `InvalidInputError` unless it is a whole number of at least 1."""
    if not (is_real(draws) and math.isfinite(draws)) or draws != int(draws) or draws < 1:
        raise InvalidInputError(f"draws: expected a whole number of at least 1, got {draws!r}")
    return int(draws)


def _reject_where(bad: Booleans, array: Numbers, name: str, expected: str) -> None:
    """Raise `InvalidInputError` naming the first element of ``array`` where ``bad`` holds."""
    if bad.any():
        index = tuple(np.argwhere(bad)[0].tolist())
        raise InvalidInputError(f"{name}[{', '.join(map(str, index))}]: {expected}, got {array[index]}")
