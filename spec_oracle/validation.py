"""Checks of arguments that public functions share: each returns the value, or names argument and value."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard, TypeVar

from spec_oracle.errors import InvalidInputError, unknown

T = TypeVar("T")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer of any library, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


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
