"""Arithmetic and comparisons on numbers and symbols alike; both front ends compute through `FUNCTIONS`.

Names are numpy's. Every function takes scalars. Where all of them are numbers, numpy computes.
"""

import math
import operator
from collections.abc import Callable
from typing import Final, NoReturn

import numpy as np

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.products import Product, product
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Noise, Pending, Scalar, Symbol

_LARGEST_RANGE = 4096
"""Most integers a truncated noise may take."""


def is_scalar(value: object) -> bool:
    """Whether ``value`` is a symbol, a number, or a 0-d array of any library."""
    return isinstance(value, Symbol | int | float) or getattr(value, "shape", None) == ()


def _stuck(operation: str, reason: str) -> NoReturn:
    current_run().cannot_follow(operation, reason)


def _resolved(operation: str, *values: Scalar) -> list[Scalar]:
    """Return numbers and noises: pending integers are decided, untraceable values raise."""
    return [
        value
        if isinstance(value, Noise)
        else value.settled(operation)
        if isinstance(value, Symbol)
        else value.item()
        if hasattr(value, "item")
        else value
        for value in values
    ]


def _mapped(operation: str, noise: Noise, offset: float, slope: float) -> Scalar:
    """Return offset + slope * noise; a number where the noise does not matter."""
    if math.isnan(offset) or math.isinf(offset):
        return offset
    if slope == 0:
        return offset
    if not math.isfinite(slope):
        return slope * _sign(operation, noise)
    return Noise(noise.draw, maps.affine(noise.chain, offset, slope))


def _sign(operation: str, noise: Noise) -> int:
    low, high = noise.bounds
    if low >= 0:
        return 1
    if high <= 0:
        return -1
    return _stuck(operation, "the sign of the random number is not known")


def _add(left: Scalar, right: Scalar) -> Scalar:
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Pending) and not isinstance(other, Symbol) and other == 0:
            return value
    left, right = _resolved("addition", left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        _stuck("addition", "two random numbers are added")
    if isinstance(left, Noise):
        return _mapped("addition", left, right, 1.0)
    return _mapped("addition", right, left, 1.0) if isinstance(right, Noise) else left + right


def _subtract(left: Scalar, right: Scalar) -> Scalar:
    return add(left, multiply(right, -1) if isinstance(right, Symbol) else -right)


def _multiply(left: Scalar, right: Scalar) -> Scalar:
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Pending) and not isinstance(other, Symbol) and other in (0, 1):
            return value if other else 0
    if isinstance(left, Noise | Product) and isinstance(right, Noise | Product):
        return product(left, right)
    left, right = _resolved("multiplication", left, right)
    if isinstance(left, Noise):
        return _mapped("multiplication", left, 0.0, right)
    return _mapped("multiplication", right, 0.0, left) if isinstance(right, Noise) else left * right


def _divide(left: Scalar, right: Scalar) -> Scalar:
    left, right = _resolved("division", left, right)
    if not isinstance(right, Noise):
        if isinstance(left, Noise):
            return multiply(left, divide(1.0, right))
        return divide(left, right)
    if isinstance(left, Noise):
        _stuck("division", "a random number is divided by another")
    if _sign("division", right) > 0:
        inverse = Noise(right.draw, maps.power(right.chain, -1.0))
    else:
        positive = maps.negation(right.chain)
        inverse = Noise(right.draw, maps.negation(maps.power(positive, -1.0)))
    return multiply(inverse, left)


def _power(left: Scalar, right: Scalar) -> Scalar:
    left, right = _resolved("power", left, right)
    if isinstance(left, Noise) and not isinstance(right, Noise):
        return exp(multiply(log(left), right))
    if isinstance(right, Noise) and not isinstance(left, Noise):
        return exp(multiply(right, log(left)))
    return power(left, right) if not isinstance(left, Noise) else _stuck("power", "of two random numbers")


def _log(value: Scalar) -> Scalar:
    (value,) = _resolved("logarithm", value)
    if not isinstance(value, Noise):
        return log(value)
    if value.bounds[0] < 0:
        _stuck("logarithm", "the random number may be negative")
    return Noise(value.draw, maps.log(value.chain))


def _exp(value: Scalar) -> Scalar:
    (value,) = _resolved("exponential", value)
    return Noise(value.draw, maps.exp(value.chain)) if isinstance(value, Noise) else exp(value)


def _less(left: Scalar, right: Scalar) -> bool:
    left, right = _comparable(left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        return _noise_less(left, right)
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        _stuck("comparison", "two random numbers are compared")
    if isinstance(left, Noise | Product):
        return not math.isnan(right) and left.is_below(right)
    if isinstance(right, Noise | Product):
        return not math.isnan(left) and not right.is_below(left)
    return bool(left < right)


def _comparable(*values: Scalar) -> list[Scalar]:
    return [value if isinstance(value, Product) else _resolved("comparison", value)[0] for value in values]


def _noise_less(left: Noise, right: Noise) -> bool:
    if left.draw is right.draw and left.chain == right.chain:
        return False
    (left_low, left_high), (right_low, right_high) = left.bounds, right.bounds
    if left_high <= right_low:
        return True
    if right_high <= left_low:
        return False
    return _stuck("comparison", "two random numbers are compared")


def _equal(left: Scalar, right: Scalar) -> bool:
    left, right = _comparable(left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        return left.draw is right.draw and left.chain == right.chain
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return left is right
    return bool(left == right)


def _less_equal(left: Scalar, right: Scalar) -> bool:
    return bool(less(left, right) or equal(left, right))


def _minimum(left: Scalar, right: Scalar) -> Scalar:
    if _is_nan(left) or _is_nan(right):
        return math.nan
    return right if less(right, left) else left


def _maximum(left: Scalar, right: Scalar) -> Scalar:
    if _is_nan(left) or _is_nan(right):
        return math.nan
    return right if less(left, right) else left


def _is_nan(value: Scalar) -> bool:
    return not isinstance(value, Symbol) and math.isnan(value)


def truncate(value: Scalar) -> int:
    """Return the integer part; of a noise, by a decision between the integers in its range."""
    (value,) = _resolved("int()", value)
    if not isinstance(value, Noise):
        return int(value)
    low, high = value.bounds
    if not 0 <= low <= high <= _LARGEST_RANGE:
        _stuck("int()", f"the random number lies in ({low}, {high}), which is not a short range of integers")
    for ceiling in range(math.floor(low) + 1, math.ceil(high)):
        if value.is_below(ceiling):
            return ceiling - 1
    return max(math.ceil(high) - 1, 0)


def _function(numeric: Callable[..., Scalar], symbolic: Callable[..., Scalar]) -> Callable[..., Scalar]:
    def function(*values: Scalar) -> Scalar:
        if any(isinstance(value, Symbol) for value in values):
            return symbolic(*values)
        with np.errstate(all="ignore"):
            return numeric(*values)

    return function


add: Final = _function(np.add, _add)
subtract: Final = _function(np.subtract, _subtract)
multiply: Final = _function(np.multiply, _multiply)
divide: Final = _function(np.divide, _divide)
power: Final = _function(np.power, _power)
log: Final = _function(np.log, _log)
exp: Final = _function(np.exp, _exp)
less: Final = _function(np.less, _less)
equal: Final = _function(np.equal, _equal)
less_equal: Final = _function(np.less_equal, _less_equal)

FUNCTIONS: Final[dict[str, Callable[..., Scalar]]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "power": power,
    "log": log,
    "exp": exp,
    "log1p": _function(np.log1p, lambda value: log(add(value, 1.0))),
    "expm1": _function(np.expm1, lambda value: subtract(exp(value), 1.0)),
    "sqrt": _function(np.sqrt, lambda value: power(value, 0.5)),
    "reciprocal": _function(np.reciprocal, lambda value: divide(1.0, value)),
    "negative": _function(np.negative, lambda value: multiply(value, -1.0)),
    "positive": _function(np.positive, lambda value: value),
    "absolute": _function(np.absolute, operator.abs),
    "minimum": _function(np.minimum, _minimum),
    "maximum": _function(np.maximum, _maximum),
    "clip": _function(np.clip, lambda value, low, high: _minimum(_maximum(value, low), high)),
    "less": less,
    "less_equal": less_equal,
    "greater": _function(np.greater, lambda left, right: less(right, left)),
    "greater_equal": _function(np.greater_equal, lambda left, right: less_equal(right, left)),
    "equal": equal,
    "not_equal": _function(np.not_equal, lambda left, right: not equal(left, right)),
    "isnan": _function(np.isnan, lambda value: value.settled("isnan") if _is_lost(value) else False),
    "isinf": _function(np.isinf, lambda value: value.settled("isinf") if _is_lost(value) else False),
    "isfinite": _function(np.isfinite, lambda value: not _is_lost(value) or value.settled("isfinite")),
    "floor": _function(np.floor, truncate),
    "trunc": _function(np.trunc, truncate),
}
"""Elementwise functions by numpy's name; each takes and returns scalars."""

COMPARISONS: Final = frozenset(
    {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isinf", "isfinite"}
)
"""The functions that answer with a bool."""


def _is_lost(value: Scalar) -> bool:
    return not isinstance(value, Noise | Pending)
