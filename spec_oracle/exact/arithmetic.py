"""The three arithmetics in which a verifier can be enumerated: numpy floats, rationals, torch tensors.

Rationals are `gmpy2.mpq` inside where it is installed, and `fractions.Fraction` in results.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Numbers
from spec_oracle.errors import InvalidInputError
from verifiers.arrays import Array

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


def _unchanged(values: Array) -> Array:
    return values


@dataclass(frozen=True)
class Arithmetic:
    """How probabilities travel to the code under test and back.

    ``prepare`` turns the instance's numbers into those that draft laws and weights are computed in;
    ``chances`` does so with numbers of a decision, which must then be rationals if this ``is_exact``;
    ``from_numpy`` and ``to_numpy`` translate arrays of any type; ``probabilities`` translates rows, in the
    precision under test; ``finish`` turns summed weights into what results show.
    """

    prepare: Callable[[Numbers], Numbers] = _unchanged
    probabilities: Callable[[Numbers], Array] = _unchanged
    from_numpy: Callable[[Numbers], Array] = _unchanged
    to_numpy: Callable[[Array], Numbers] = np.asarray
    finish: Callable[[Numbers], Numbers] = _unchanged
    chances: Callable[[Numbers], Numbers] = _unchanged
    is_exact: bool = False


NUMPY: Final = Arithmetic()
"""numpy arrays as they are."""


def arithmetic(*, exact: bool = False, array: str = "numpy", dtype: str = "float64") -> Arithmetic:
    """Choose an arithmetic; raises `InvalidInputError` for a combination that does not exist."""
    if array not in ("numpy", "torch"):
        raise InvalidInputError(f"array: expected 'numpy' or 'torch', got {array!r}")
    if exact:
        if array != "numpy" or dtype != "float64":
            raise InvalidInputError(f"exact: rationals need array='numpy', got {array!r} and dtype {dtype!r}")
        return Arithmetic(prepare=to_internal, finish=to_fractions, chances=whole_as_rationals, is_exact=True)
    if array == "torch":
        return _torch(dtype)
    if dtype not in ("float64", "float32", "float16"):
        raise InvalidInputError(f"dtype: numpy has float64, float32 and float16, got {dtype!r}")
    return Arithmetic(probabilities=lambda rows: rows.astype(dtype, copy=False), to_numpy=_widened)


def _widened(values: Array) -> Numbers:
    """Chances are multiplied in float64 whatever the precision under test."""
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype in (np.float32, np.float16) else array


def _torch(dtype: str) -> Arithmetic:
    import torch

    if dtype not in ("float64", "float32", "bfloat16", "float16"):
        raise InvalidInputError(
            f"dtype: torch has float64, float32, bfloat16 and float16 here, got {dtype!r}"
        )
    precision = getattr(torch, dtype)

    def to_numpy(values: Array) -> Numbers:
        if isinstance(values, np.ndarray):  # a state that is no number
            return values
        wide = values.double() if values.is_floating_point() else values
        array: Numbers = wide.cpu().numpy()
        return array

    return Arithmetic(
        probabilities=lambda rows: torch.from_numpy(rows).to(precision),
        from_numpy=lambda values: values if values.dtype == object else torch.as_tensor(values),
        to_numpy=to_numpy,
    )
