"""Arithmetic on numbers and symbols alike; all libraries compute through `FUNCTIONS`."""

import math
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.comparisons import (
    FUNCTIONS,
    Function,
    elementwise,
    equal,
    is_scalar,
    less,
    resolved,
    stuck,
)
from spec_oracle.exact.interception.draws import LARGEST_RANGE, Noise, Product, is_clamp_left_out, product
from spec_oracle.exact.interception.run import MOST_GUARDED, current_run
from spec_oracle.exact.interception.symbols import INT, Pending, Scalar, Symbol
from spec_oracle.exact.representatives import NEGLIGIBLE

__all__ = ["FUNCTIONS", "decided", "decided_if_short", "truncate"]

_FEW = 64
"""Integer parts are decided at once if there are so few; so the fractional part can be traced, too."""


def _mapped(operation: str, noise: Noise, offset: float, slope: float) -> Scalar:
    """Return offset + slope * noise; a number where the noise does not matter."""
    if math.isnan(offset) or math.isinf(offset):
        return offset
    if slope == 0:
        if not maps.is_continuous(noise.chain) and any(map(math.isinf, noise.bounds)):
            stuck(operation, "zero times infinity is possible")
        return offset
    if not math.isfinite(slope):
        return slope * _sign(operation, noise)
    return Noise(noise.draw, maps.affine(noise.chain, float(offset), float(slope)))


def _is_guarded(noise: Noise, share: float) -> bool:
    """Whether the share of a noise's values that a guard changes is so small that the guard is left out."""
    if not share <= MOST_GUARDED or noise.draw.spent:  # no number where rounding decides
        return False
    if share > NEGLIGIBLE:
        current_run().leave_out(share)
    return True


def _sign(operation: str, noise: Noise) -> int:
    """Return the sign of a noise that cannot be negative, or not positive."""
    low, high = noise.bounds
    tame = maps.is_continuous(noise.chain)
    if tame and low < 0 < high and _is_guarded(noise, noise.share_below(0.0)):
        return 1
    if low >= 0:
        return 1 if low > 0 or tame or not noise.is_below(0.0, inclusive=True) else 0
    if high <= 0:
        return -1 if high < 0 or tame or noise.is_below(0.0) else 0
    return stuck(operation, "the sign of the random number is not known")


@elementwise(np.add)
def _add(left: Scalar, right: Scalar) -> Scalar:
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Pending) and not isinstance(other, Symbol) and other == 0:
            return value
    left, right = resolved("addition", left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        stuck("addition", "two random numbers are added")
    if isinstance(left, Noise):
        return _mapped("addition", left, right, 1.0)
    return _mapped("addition", right, left, 1.0) if isinstance(right, Noise) else left + right


@elementwise(np.subtract)
def _subtract(left: Scalar, right: Scalar) -> Scalar:
    return _add(left, _multiply(right, -1) if isinstance(right, Symbol) else -right)


@elementwise(np.multiply)
def _multiply(left: Scalar, right: Scalar) -> Scalar:
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Pending) and not isinstance(other, Symbol) and other in (0, 1):
            return value if other else 0
    if isinstance(left, Noise | Product) and isinstance(right, Noise | Product):
        return product(left, right)
    left, right = resolved("multiplication", left, right)
    if isinstance(left, Noise):
        return _mapped("multiplication", left, 0.0, right)
    return _mapped("multiplication", right, 0.0, left) if isinstance(right, Noise) else left * right


@elementwise(np.divide)
def _divide(left: Scalar, right: Scalar) -> Scalar:
    left, right = resolved("division", left, right)
    if not isinstance(right, Noise):
        if isinstance(left, Noise):
            return _multiply(left, _divide(1.0, right))
        return _divide(left, right)
    if isinstance(left, Noise):
        stuck("division", "a random number is divided by another")
    if left == 0:
        return 0.0 if _sign("division", right) else math.nan
    if right.bounds[0] >= 0 or _is_guarded(right, right.share_below(0.0)):
        inverse = Noise(right.draw, maps.power(right.chain, -1.0))
    else:
        if right.bounds[1] > 0:
            stuck("division", "the sign of the random number is not known")
        positive = maps.negation(right.chain)
        inverse = Noise(right.draw, maps.negation(maps.power(positive, -1.0)))
    return _multiply(inverse, left)


@elementwise(np.power)
def _power(left: Scalar, right: Scalar) -> Scalar:
    left, right = resolved("power", left, right)
    if isinstance(left, Noise) and not isinstance(right, Noise):
        return _exp(_multiply(_log(left), right))
    if isinstance(right, Noise) and not isinstance(left, Noise):
        return _exp(_multiply(right, _log(left)))
    return _power(left, right) if not isinstance(left, Noise) else stuck("power", "of two random numbers")


@elementwise(np.log)
def _log(value: Scalar) -> Scalar:
    (value,) = resolved("logarithm", value)
    if not isinstance(value, Noise):
        return _log(value)
    if value.bounds[0] < 0 and not _is_guarded(value, value.share_below(0.0)):
        stuck("logarithm", "the random number may be negative")
    return Noise(value.draw, maps.log(value.chain))


@elementwise(np.exp)
def _exp(value: Scalar) -> Scalar:
    (value,) = resolved("exponential", value)
    return Noise(value.draw, maps.exp(value.chain)) if isinstance(value, Noise) else _exp(value)


def _extreme(left: Scalar, right: Scalar, *, largest: bool) -> Scalar:
    if any(not isinstance(value, Symbol) and math.isnan(value) for value in (left, right)):
        return math.nan
    for noise, number in ((left, right), (right, left)):
        is_clamp = isinstance(noise, Noise) and not isinstance(number, Symbol)
        if is_clamp and is_clamp_left_out([noise], number, from_below=largest):
            return noise
    return right if (less(left, right) if largest else less(right, left)) else left


_minimum: Final = elementwise(np.minimum)(partial(_extreme, largest=False))
_maximum: Final = elementwise(np.maximum)(partial(_extreme, largest=True))


@elementwise(np.trunc)
def truncate(value: Scalar) -> Scalar:
    """Return the integer part (towards zero): a number, or a noise if its range is long."""
    whole = _floor(value) if not less(value, 0) else _multiply(_floor(_multiply(value, -1)), -1)
    return whole if isinstance(whole, Noise) else int(whole)


def decided(value: Scalar, operation: str = INT) -> int:
    """Return the integer part as a number."""
    value = decided_if_short(value)
    if isinstance(value, Noise):
        low, high = value.bounds
        stuck(operation, f"the random number lies in ({low}, {high}), which is not a short range of integers")
    return int(value)


def decided_if_short(value: Scalar) -> Scalar:
    """Return the integer part: a number, or a noise in a range that is too long to decide it."""
    value = truncate(value)
    if not isinstance(value, Noise) or value.bounds[1] - value.bounds[0] > LARGEST_RANGE:
        return value
    return _between(value, *map(int, value.bounds))


def _between(value: Noise, low: int, high: int) -> int:
    """Decide an integral noise."""
    return next((n for n in range(low, high) if value.is_below(n, inclusive=True)), high)


@elementwise(np.floor)
def _floor(value: Scalar) -> Scalar:
    (value,) = resolved("floor", value)
    if not isinstance(value, Noise):
        return _floor(value)
    whole = Noise(value.draw, maps.floor(value.chain))
    low, high = whole.bounds
    return float(_between(whole, int(low), int(high))) if high - low <= _FEW else whole


def _of_numbers(numeric: Function) -> Function:
    """Enter a function of numbers: integers that are not decided yet are decided, noise is refused."""

    def function(*values: Scalar) -> Scalar:
        name = numeric.__name__
        found = resolved(name, *values)
        if any(isinstance(value, Noise) for value in found):
            stuck(name, "this function of a random number is not traced")
        return numeric(*found)

    return elementwise(numeric)(function)


for _numeric in (np.floor_divide, np.remainder, np.bitwise_and, np.bitwise_or, np.bitwise_xor):
    _of_numbers(_numeric)
_of_numbers(np.left_shift)
_of_numbers(np.right_shift)
_rounded: Final = _of_numbers(np.rint)
elementwise(np.log1p)(lambda value: _log(_add(value, 1.0)))
elementwise(np.expm1)(lambda value: _subtract(_exp(value), 1.0))
elementwise(np.log2)(lambda value: _divide(_log(value), math.log(2)))
elementwise(np.log10)(lambda value: _divide(_log(value), math.log(10)))
elementwise(np.sqrt)(lambda value: _power(value, 0.5))
elementwise(np.square)(lambda value: _power(value, 2.0))
elementwise(np.reciprocal)(lambda value: _divide(1.0, value))
elementwise(np.negative)(lambda value: _multiply(value, -1.0))
elementwise(np.positive)(lambda value: value)
elementwise(np.absolute)(lambda value: _multiply(value, -1.0) if less(value, 0.0) else value)
elementwise(np.clip)(lambda value, low, high: _minimum(_maximum(value, low), high))
elementwise(np.ceil)(lambda value: _multiply(_floor(_multiply(value, -1.0)), -1.0))


_OPERATORS: Final = (
    "add:add sub:subtract mul:multiply truediv:divide floordiv:floor_divide mod:remainder pow:power "
    "and:bitwise_and or:bitwise_or xor:bitwise_xor lshift:left_shift rshift:right_shift"
)
_COMPARING: Final = "lt:less le:less_equal gt:greater ge:greater_equal eq:equal ne:not_equal"


def _operator(function: Function, *, reflected: bool = False) -> Function:
    def operator(symbol: Symbol, other: Scalar) -> Scalar:
        if not is_scalar(other):
            return NotImplemented
        return function(other, symbol) if reflected else function(symbol, other)

    return operator


def _give_operators() -> None:
    """Put Python's operators on symbols: they are here because they compute, and `symbols` is below."""
    named = [pair.split(":") for pair in _OPERATORS.split()]
    for name, function in ((name, FUNCTIONS[numpys]) for name, numpys in named):
        setattr(Symbol, f"__{name}__", _operator(function))
        setattr(Symbol, f"__r{name}__", _operator(function, reflected=True))
    for name, numpys in (pair.split(":") for pair in _COMPARING.split()):
        setattr(Symbol, f"__{name}__", _operator(FUNCTIONS[numpys]))
    methods: dict[str, Function] = {
        "neg": FUNCTIONS["negative"],
        "pos": FUNCTIONS["positive"],
        "abs": FUNCTIONS["absolute"],
        "bool": lambda symbol: not equal(symbol, 0),
        "int": decided,
        "trunc": decided,
        "floor": lambda symbol: decided(_floor(symbol), "floor"),
        "ceil": lambda symbol: decided(FUNCTIONS["ceil"](symbol), "ceil"),
        "round": lambda symbol, _=None: int(_rounded(symbol)),
    }
    for name, method in methods.items():
        setattr(Symbol, f"__{name}__", method)
    # numpy.round of a scalar asks for this method.
    Symbol.round = lambda symbol, *_, **__: _rounded(symbol)  # type: ignore[attr-defined]


_give_operators()
