"""Rationals for the exact mode: `gmpy2.mpq` inside where it is installed, `fractions.Fraction` in results."""

from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np

from spec_oracle.arrays import Numbers

try:
    from gmpy2 import mpq as _rational
except ImportError:
    _rational = Fraction


def to_fraction(value: Any) -> Fraction:
    """Return a rational of either type as a `Fraction`."""
    return Fraction(int(value.numerator), int(value.denominator))


_to_internal = np.frompyfunc(_rational, 1, 1)
_to_fraction = np.frompyfunc(to_fraction, 1, 1)


def to_internal(values: Numbers) -> Numbers:
    """Return an object array of the fastest rational type that is installed."""
    return np.asarray(_to_internal(values), dtype=object)


def to_fractions(values: Numbers) -> Numbers:
    """Return an object array of `Fraction`."""
    return np.asarray(_to_fraction(values), dtype=object)


def whole_as_rationals(values: Numbers) -> Numbers:
    """Return an object array in which whole numbers of any type are rationals; other floats stay floats."""
    kinds = set(map(type, values.flat))
    if all(issubclass(kind, Rational) and not issubclass(kind, Integral) for kind in kinds):
        return values
    return np.asarray(_whole_to_internal(values), dtype=object)


def _whole(value: Any) -> Any:
    is_whole = isinstance(value, Integral) or (not isinstance(value, Rational) and float(value).is_integer())
    return _rational(int(value)) if is_whole else value


_whole_to_internal = np.frompyfunc(_whole, 1, 1)
