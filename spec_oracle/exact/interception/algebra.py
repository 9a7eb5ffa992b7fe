"""Arithmetic and comparisons on numbers and symbols alike; all libraries compute through `FUNCTIONS`.

Names are numpy's. Every function takes scalars. Where all of them are numbers, numpy computes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.decisions import FEW
from spec_oracle.exact.interception.draws import LARGEST_RANGE, Noise, categorical
from spec_oracle.exact.interception.products import Product, product
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol

_FEW = 64
"""Integer parts are decided at once if there are so few; so the fractional part can be followed, too."""

Function = Callable[..., Scalar]
FUNCTIONS: Final[dict[str, Function]] = {}
"""Elementwise functions by numpy's name; each takes and returns scalars."""

COMPARISONS: Final = frozenset(
    {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isinf", "isfinite"}
)
"""The functions that answer with a bool."""


def _elementwise(numeric: Any, name: str = "") -> Callable[[Function], Function]:
    """Enter a function of symbols among `FUNCTIONS`; where all values are numbers, ``numeric`` computes."""

    def enter(symbolic: Function) -> Function:
        def function(*values: Scalar, **options: Any) -> Scalar:
            if any(isinstance(value, Symbol) for value in values):
                return symbolic(*values, **options)
            with np.errstate(all="ignore"):
                return numeric(*values, **options)

        return FUNCTIONS.setdefault(name or numeric.__name__, function)

    return enter


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
        if not maps.is_continuous(noise.chain) and any(map(math.isinf, noise.bounds)):
            _stuck(operation, "zero times infinity is possible")
        return offset
    if not math.isfinite(slope):
        return slope * _sign(operation, noise)
    return Noise(noise.draw, maps.affine(noise.chain, float(offset), float(slope)))


def _sign(operation: str, noise: Noise) -> int:
    """Return the sign of a noise that cannot be zero."""
    low, high = noise.bounds
    tame = maps.is_continuous(noise.chain)
    if low > 0 or (tame and low == 0):
        return 1
    if high < 0 or (tame and high == 0):
        return -1
    return _stuck(operation, "the sign of the random number is not known")


@_elementwise(np.add)
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


@_elementwise(np.subtract)
def _subtract(left: Scalar, right: Scalar) -> Scalar:
    return _add(left, _multiply(right, -1) if isinstance(right, Symbol) else -right)


@_elementwise(np.multiply)
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


@_elementwise(np.divide)
def _divide(left: Scalar, right: Scalar) -> Scalar:
    left, right = _resolved("division", left, right)
    if not isinstance(right, Noise):
        if isinstance(left, Noise):
            return _multiply(left, _divide(1.0, right))
        return _divide(left, right)
    if isinstance(left, Noise):
        _stuck("division", "a random number is divided by another")
    if _sign("division", right) > 0:
        inverse = Noise(right.draw, maps.power(right.chain, -1.0))
    else:
        positive = maps.negation(right.chain)
        inverse = Noise(right.draw, maps.negation(maps.power(positive, -1.0)))
    return _multiply(inverse, left)


@_elementwise(np.power)
def _power(left: Scalar, right: Scalar) -> Scalar:
    left, right = _resolved("power", left, right)
    if isinstance(left, Noise) and not isinstance(right, Noise):
        return _exp(_multiply(_log(left), right))
    if isinstance(right, Noise) and not isinstance(left, Noise):
        return _exp(_multiply(right, _log(left)))
    return _power(left, right) if not isinstance(left, Noise) else _stuck("power", "of two random numbers")


@_elementwise(np.log)
def _log(value: Scalar) -> Scalar:
    (value,) = _resolved("logarithm", value)
    if not isinstance(value, Noise):
        return _log(value)
    if value.bounds[0] < 0:
        _stuck("logarithm", "the random number may be negative")
    return Noise(value.draw, maps.log(value.chain))


@_elementwise(np.exp)
def _exp(value: Scalar) -> Scalar:
    (value,) = _resolved("exponential", value)
    return Noise(value.draw, maps.exp(value.chain)) if isinstance(value, Noise) else _exp(value)


def _is_less(left: Scalar, right: Scalar, *, or_equal: bool = False) -> bool:
    left, right = _comparable(left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        return _noise_less(left, right, or_equal=or_equal)
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        _stuck("comparison", "two random numbers are compared")
    if isinstance(left, Noise | Product):
        return not math.isnan(right) and left.is_below(right, inclusive=or_equal)
    if isinstance(right, Noise | Product):
        return not math.isnan(left) and not right.is_below(left, inclusive=not or_equal)
    return bool(left <= right if or_equal else left < right)


def among(noise: Noise, numbers: Any) -> Callable[[], tuple[int, Any]] | None:
    """Return a function that decides at once how many of many numbers [n] are below a noise, and which.

    None for noise that is no increasing affine function of a fresh uniform: numbers are compared one by one.
    """
    match noise.chain:
        case ():
            offset, slope = 0.0, 1.0
        case (maps.Affine(offset, slope),) if slope > 0:
            pass
        case _:
            return None
    cuts = (np.asarray(numbers, dtype=np.float64) - offset) / slope
    if noise.draw.spent or noise.draw.ask is not None or np.isnan(cuts).any():
        return None
    order = np.argsort(cuts, kind="stable")

    def decide() -> tuple[int, Any]:
        count = noise.draw.rank(cuts[order])
        found = np.zeros(len(cuts), dtype=bool)
        found[order[:count]] = True
        return count, found

    return decide


def place_of(noise: Noise, numbers: Any, side: str) -> Scalar:
    """Return how many of many numbers, which ascend, are below a noise; decided when first used."""
    decide = among(noise, numbers) if len(numbers) > FEW else None
    if decide is None:
        return int(np.array(numbers, dtype=object).searchsorted(noise, side))  # type: ignore[call-overload]
    return Pending(lambda: decide()[0])


def compared_with_many(name: str, left: Any, right: Any) -> Any:
    """Return a comparison of noise [..., 1] with numbers [..., n], in which each noise is decided once.

    Object arrays; None where this way does not work.
    """
    shape = np.broadcast_shapes(left.shape, right.shape)
    for noises, numbers, below in ((left, right, "less" not in name), (right, left, "less" in name)):
        if name not in _ORDERED or not shape or shape[-1] <= FEW or noises.shape[-1:] not in ((), (1,)):
            continue
        wide = np.broadcast_to(numbers, shape)
        if any(isinstance(number, Symbol) for number in numbers.flat):
            continue
        found = np.empty(shape, dtype=bool)
        for row, noise in np.ndenumerate(np.broadcast_to(noises, (*shape[:-1], 1))[..., 0]):
            decide = among(noise, wide[row]) if isinstance(noise, Noise) else None
            if decide is None:
                return None
            found[row] = decide()[1] == below
        return found
    return None


_ORDERED: Final = ("less", "less_equal", "greater", "greater_equal")


def _comparable(*values: Scalar) -> list[Scalar]:
    return [value if isinstance(value, Product) else _resolved("comparison", value)[0] for value in values]


def _noise_less(left: Noise, right: Noise, *, or_equal: bool) -> bool:
    if _is_same(left, right):
        return or_equal
    (left_low, left_high), (right_low, right_high) = left.bounds, right.bounds
    touch = or_equal or (maps.is_continuous(left.chain) and maps.is_continuous(right.chain))
    if left_high < right_low or (touch and left_high == right_low):
        return True
    if right_high < left_low or (touch and not or_equal and right_high == left_low):
        return False
    return _stuck("comparison", "two random numbers are compared")


def _is_same(left: Noise, right: Noise) -> bool:
    return left.draw is right.draw and left.chain == right.chain


@_elementwise(np.equal)
def _equal(left: Scalar, right: Scalar) -> bool:
    left, right = _comparable(left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        if _is_same(left, right) or (maps.is_continuous(left.chain) and maps.is_continuous(right.chain)):
            return _is_same(left, right)
        _stuck("comparison", "two random numbers are compared")
    if isinstance(right, Noise):
        left, right = right, left
    if isinstance(left, Noise) and not maps.is_continuous(left.chain):
        return left.is_below(right, inclusive=True) and not left.is_below(right)
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return left is right
    return bool(left == right)


@_elementwise(np.minimum)
def _minimum(left: Scalar, right: Scalar) -> Scalar:
    if _is_nan(left) or _is_nan(right):
        return math.nan
    return right if _less(right, left) else left


@_elementwise(np.maximum)
def _maximum(left: Scalar, right: Scalar) -> Scalar:
    if _is_nan(left) or _is_nan(right):
        return math.nan
    return right if _less(left, right) else left


@_elementwise(np.trunc)
def truncate(value: Scalar) -> Scalar:
    """Return the integer part (towards zero): a number, or a noise if its range is long."""
    whole = _floor(value) if not _less(value, 0) else _multiply(_floor(_multiply(value, -1)), -1)
    return whole if isinstance(whole, Noise) else int(whole)


def decided(value: Scalar, operation: str = "int()") -> int:
    """Return the integer part as a number."""
    value = truncate(value)
    if not isinstance(value, Noise):
        return int(value)
    low, high = value.bounds
    if high - low > LARGEST_RANGE:
        _stuck(
            operation, f"the random number lies in ({low}, {high}), which is not a short range of integers"
        )
    return _between(value, int(low), int(high))


def _between(value: Noise, low: int, high: int) -> int:
    """Decide an integral noise."""
    return next((n for n in range(low, high) if value.is_below(n, inclusive=True)), high)


@_elementwise(np.floor)
def _floor(value: Scalar) -> Scalar:
    (value,) = _resolved("floor", value)
    if not isinstance(value, Noise):
        return _floor(value)
    whole = Noise(value.draw, maps.floor(value.chain))
    low, high = whole.bounds
    return float(_between(whole, int(low), int(high))) if high - low <= _FEW else whole


@_elementwise(np.round, "rint")
def _rounded(value: Scalar, decimals: int = 0) -> Scalar:
    """Round to the nearest; ties have probability 0 for noise that is continuous."""
    (value,) = _resolved("round", value)
    if not isinstance(value, Noise):
        return np.round(value, decimals)
    if not maps.is_continuous(value.chain):
        _stuck("round", "ties are possible")
    return _divide(_floor(_add(_multiply(value, 10.0**decimals), 0.5)), 10.0**decimals)


@_elementwise(np.floor_divide)
def _floor_divide(left: Scalar, right: Scalar) -> Scalar:
    left, right = _resolved("floor division", left, right)
    if isinstance(left, Noise) and maps.is_integral(left.chain) and right == int(right) and right > 0:
        return Noise(left.draw, maps.floor_divided(left.chain, int(right)))
    return _floor(_divide(left, right))


@_elementwise(np.remainder)
def _remainder(left: Scalar, right: Scalar) -> Scalar:
    left, right = _resolved("remainder", left, right)
    if isinstance(left, Noise) and isinstance(right, int) and left.draw.is_fresh:
        match left.chain:
            case (maps.Affine(0.0, count), maps.Floor()) if 0 < right <= LARGEST_RANGE < count:
                # The quotient is not followed any more.
                left.draw.spent = "the random number was used before, its remainder was taken"
                whole, more = divmod(int(count), right)
                return categorical([whole + (n < more) for n in range(right)])
    return _subtract(left, _multiply(_floor_divide(left, right), right))


@_elementwise(np.bitwise_and)
def _bitwise_and(left: Scalar, right: Scalar) -> Scalar:
    """Take the lowest bits of an integer."""
    if not isinstance(right, Symbol) and right >= 0 and (right & (right + 1)) == 0:
        return _remainder(left, int(right) + 1)
    return np.bitwise_and(decided(left, "bitwise and"), decided(right, "bitwise and"))


def _is_nan(value: Scalar) -> bool:
    return not isinstance(value, Symbol) and math.isnan(value)


def _is_lost(value: Scalar) -> bool:
    return not isinstance(value, Noise | Pending)


_less: Final = _elementwise(np.less)(_is_less)
_less_equal: Final = _elementwise(np.less_equal)(partial(_is_less, or_equal=True))
_elementwise(np.greater)(lambda left, right: _less(right, left))
_elementwise(np.greater_equal)(lambda left, right: _less_equal(right, left))
_elementwise(np.not_equal)(lambda left, right: not _equal(left, right))
_elementwise(np.isnan)(lambda value: value.settled("isnan") if _is_lost(value) else False)
_elementwise(np.isinf)(lambda value: value.settled("isinf") if _is_lost(value) else False)
_elementwise(np.isfinite)(lambda value: not _is_lost(value) or value.settled("isfinite"))
_elementwise(np.log1p)(lambda value: _log(_add(value, 1.0)))
_elementwise(np.expm1)(lambda value: _subtract(_exp(value), 1.0))
_elementwise(np.log2)(lambda value: _divide(_log(value), math.log(2)))
_elementwise(np.log10)(lambda value: _divide(_log(value), math.log(10)))
_elementwise(np.sqrt)(lambda value: _power(value, 0.5))
_elementwise(np.square)(lambda value: _power(value, 2.0))
_elementwise(np.reciprocal)(lambda value: _divide(1.0, value))
_elementwise(np.negative)(lambda value: _multiply(value, -1.0))
_elementwise(np.positive)(lambda value: value)
_elementwise(np.absolute)(lambda value: _multiply(value, -1.0) if _less(value, 0.0) else value)
_elementwise(np.clip)(lambda value, low, high: _minimum(_maximum(value, low), high))
_elementwise(np.ceil)(lambda value: _multiply(_floor(_multiply(value, -1.0)), -1.0))
_elementwise(np.right_shift)(lambda value, bits: _floor_divide(value, 1 << int(bits)))
_elementwise(np.left_shift)(lambda value, bits: _multiply(value, 1 << int(bits)))
_elementwise(np.bitwise_or)(lambda left, right: np.bitwise_or(decided(left, "or"), decided(right, "or")))
_elementwise(np.bitwise_xor)(lambda left, right: np.bitwise_xor(decided(left, "xor"), decided(right, "xor")))


def divided(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    """Return quotient and remainder."""
    return _floor_divide(left, right), _remainder(left, right)


_OPERATORS: Final = (
    "add:add sub:subtract mul:multiply truediv:divide floordiv:floor_divide mod:remainder pow:power "
    "and:bitwise_and or:bitwise_or xor:bitwise_xor lshift:left_shift rshift:right_shift"
)
_COMPARING: Final = "lt:less le:less_equal gt:greater ge:greater_equal eq:equal ne:not_equal"


def _operator(function: Callable[..., Any], *, reflected: bool = False) -> Callable[[Symbol, Scalar], Any]:
    def operator(symbol: Symbol, other: Scalar) -> Any:
        if not is_scalar(other):
            return NotImplemented
        return function(other, symbol) if reflected else function(symbol, other)

    return operator


def _give_operators() -> None:
    """Put Python's operators on symbols: they are here because they compute, and `symbols` is below."""
    named = [pair.split(":") for pair in _OPERATORS.split()]
    for name, function in [*((name, FUNCTIONS[numpys]) for name, numpys in named), ("divmod", divided)]:
        setattr(Symbol, f"__{name}__", _operator(function))
        setattr(Symbol, f"__r{name}__", _operator(function, reflected=True))
    for name, numpys in (pair.split(":") for pair in _COMPARING.split()):
        setattr(Symbol, f"__{name}__", _operator(FUNCTIONS[numpys]))
    methods: dict[str, Callable[..., Any]] = {
        "neg": FUNCTIONS["negative"],
        "pos": FUNCTIONS["positive"],
        "abs": FUNCTIONS["absolute"],
        "bool": lambda symbol: not _equal(symbol, 0),
        "int": decided,
        "trunc": decided,
        "floor": lambda symbol: decided(_floor(symbol), "floor"),
        "ceil": lambda symbol: decided(FUNCTIONS["ceil"](symbol), "ceil"),
        "round": lambda symbol, digits=None: (
            decided(_rounded(symbol), "round") if digits is None else _rounded(symbol, decimals=digits)
        ),
    }
    for name, method in methods.items():
        setattr(Symbol, f"__{name}__", method)


_give_operators()
