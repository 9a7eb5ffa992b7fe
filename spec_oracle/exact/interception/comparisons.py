"""Functions of numbers and symbols alike, and the comparisons among them, which take the random decisions.

Names are numpy's. Every function takes scalars. Where all of them are numbers, numpy computes. `algebra`
enters its functions here, too.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import Final, NoReturn

import numpy as np

from spec_oracle.arrays import Booleans, Numbers
from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.draws import IS_FRESH, Noise, Product, is_clamp_left_out
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol, any_symbol
from spec_oracle.exact.representatives import FEW

Function = Callable[..., Scalar]
FUNCTIONS: Final[dict[str, Function]] = {}
"""Elementwise functions by numpy's name; each takes and returns scalars."""


def elementwise(numeric: Function) -> Callable[[Function], Function]:
    """Enter a function of symbols among `FUNCTIONS`; where all values are numbers, ``numeric`` computes."""

    def enter(symbolic: Function) -> Function:
        def function(*values: Scalar, **options: object) -> Scalar:
            for value in values:  # of every comparison: a generator takes longer
                if isinstance(value, Symbol):
                    return symbolic(*values, **options)
            with np.errstate(all="ignore"):
                return numeric(*values, **options)

        return FUNCTIONS.setdefault(numeric.__name__, function)

    return enter


ARITHMETIC: Final = frozenset({"add", "subtract", "multiply", "divide", "log", "log1p", "exp", "negative"})
"""Functions that decide nothing where their noise is continuous."""


_LEAST: Final = 1e-300
"""A smaller factor may have no reciprocal."""


def computed(name: str, operands: Sequence[list[Scalar]]) -> list[Scalar]:
    """Return a function of many scalars, elementwise; ``operands`` are lists of one length.

    What is alike is computed once: many noises of one array are one formula.
    """
    first, limits = operands[0], operands[-1]
    is_clamp = name in _CLAMPS and type(first[0]) is Noise and set(map(type, limits)) <= {int, float}
    is_clamp = is_clamp and len(set(limits)) == 1 and _are_alike(first, first[0])
    if is_clamp and is_clamp_left_out(first, limits[0], from_below=name == "maximum"):
        return first
    found = _known_formulas(name, operands)
    return [*map(remembering(name), *operands)] if found is None else found


_CLAMPS: Final = ("maximum", "minimum")


def remembering(name: str) -> Function:
    """Return a function of scalars that computes what is alike once: one formula with one number.

    Many of the weights of an array are zero. Products and quotients with other numbers are one formula, times
    a number.
    """
    function = FUNCTIONS[name]
    if name not in ARITHMETIC:
        return function
    known: dict[tuple[object, ...], tuple[Noise, Scalar]] = {}

    def once(noise: Noise, place: int, number: float | None) -> Scalar:
        key = id(noise.chain), place, number
        if key not in known:
            values = (noise, number)[: 2 - (number is None)]
            known[key] = noise, function(*(values if place == 0 else values[::-1]))
        result = known[key][1]
        return Noise(noise.draw, result.chain) if type(result) is Noise else result

    def compute(*values: Scalar) -> Scalar:
        left, right = (*values, None)[:2]
        noise, place, number = (left, 0, right) if type(left) is Noise else (right, 1, left)
        if type(noise) is not Noise or type(number) not in (float, NoneType):
            return function(*values)
        if not (noise.draw.is_fresh and maps.is_continuous(noise.chain)):
            return function(*values)
        if name not in ("multiply", "divide") or not (number and _LEAST < abs(number) < 1 / _LEAST):
            return once(noise, place, number)
        unit = once(noise, place, 1.0) if name == "divide" and place else noise
        slope = 1.0 / number if name == "divide" and not place else number
        return Noise(noise.draw, maps.affine(unit.chain, 0.0, slope))

    return compute


_KEPT: Final = maps.KeptResults[list[Scalar]]()


def _known_formulas(name: str, operands: Sequence[list[Scalar]]) -> list[Scalar] | None:
    """Return a function of fresh noises of one formula, and of numbers; None for other operands.

    Every run of a race computes it, with other draws: the formulas are kept.
    """
    place = int(type(operands[0][0]) is not Noise)
    if name not in ARITHMETIC or len(operands) not in (1 + place, 2):
        return None
    noises, first = operands[place], operands[place][0]
    if type(first) is not Noise or not maps.is_continuous(first.chain):
        return None
    numbers = operands[1 - place] if len(operands) == 2 else ()
    if not _are_alike(noises, first) or not set(map(type, numbers)) <= {float}:
        return None
    key = name, place, id(first.chain), np.array(numbers).tobytes()
    several = operands if numbers else [[first]]
    found = _KEPT.result(key, first.chain, len(noises), lambda: list(map(remembering(name), *several)))
    if not numbers and type(made := found[0]) is Noise:
        return [Noise(noise.draw, made.chain) for noise in noises]
    return [
        Noise(noise.draw, made.chain) if type(made) is Noise else made
        for noise, made in zip(noises, found if numbers else found * len(noises), strict=True)
    ]


def _are_alike(noises: Sequence[Scalar], first: Noise) -> bool:
    """Whether all are fresh noises of the formula of the first."""
    # Of as many as tokens: a loop in Python takes longer.
    if set(map(type, noises)) != {Noise} or not all(map(IS_FRESH, noises)):
        return False
    return len(set(map(id, map(_CHAIN, noises)))) == 1 and noises[0].chain is first.chain


_CHAIN: Final = attrgetter("chain")


def is_scalar(value: object) -> bool:
    """Whether ``value`` is a symbol, a number, or a 0-d array of any library."""
    return isinstance(value, Symbol | int | float) or getattr(value, "shape", None) == ()


def stuck(operation: str, reason: str) -> NoReturn:
    """Raise `CannotTraceError`."""
    current_run().cannot_trace(operation, reason)


def resolved(operation: str, *values: Scalar) -> list[Scalar]:
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


COMPARISONS: Final = frozenset(
    {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isinf", "isfinite"}
)
"""Functions that return a bool."""

ORDERED: Final = ("less", "less_equal", "greater", "greater_equal")


def among(noise: Noise, numbers: Numbers) -> Callable[[], tuple[int, Booleans]] | None:
    """Return a function that decides at once how many of many numbers [n] are below a noise, and which.

    None for noise that is no affine function of a fresh uniform: numbers are compared one by one.
    """
    match noise.chain:
        case ():
            offset, slope = 0.0, 1.0
        case (maps.Affine(offset, slope),):
            pass
        case _:
            return None
    cuts = (np.asarray(numbers, dtype=np.float64) - offset) / slope
    if noise.draw.spent or noise.draw.ask is not None or np.isnan(cuts).any():
        return None
    order = np.argsort(cuts, kind="stable")

    def decide() -> tuple[int, Booleans]:
        count = noise.draw.rank(cuts[order])
        is_above = np.ones(len(cuts), dtype=bool)
        is_above[order[:count]] = False
        return (count, ~is_above) if slope > 0 else (len(cuts) - count, is_above)

    return decide


def place_of(noise: Noise, numbers: Numbers, side: str) -> Scalar:
    """Return how many of many numbers, which ascend, are below a noise; decided when first used."""
    decide = among(noise, numbers) if len(numbers) > FEW else None
    if decide is None:
        return int(np.array(numbers, dtype=object).searchsorted(noise, side))  # type: ignore[call-overload]
    return Pending(lambda: decide()[0])


def compared_with_many(name: str, left: Numbers, right: Numbers) -> Booleans | None:
    """Return a comparison of noise [..., 1] with numbers [..., n], in which each noise is decided once.

    Arrays of objects, or of numbers; None where this way does not work.
    """
    shape = np.broadcast_shapes(left.shape, right.shape)
    for noises, numbers, below in ((left, right, "less" not in name), (right, left, "less" in name)):
        if name not in ORDERED or not shape or shape[-1] <= FEW or noises.shape[-1:] not in ((), (1,)):
            continue
        wide = np.broadcast_to(numbers, shape)
        if numbers.dtype.hasobject and any_symbol(numbers.flat):
            continue
        found = np.empty(shape, dtype=bool)
        for row, noise in np.ndenumerate(np.broadcast_to(noises, (*shape[:-1], 1))[..., 0]):
            decide = among(noise, wide[row]) if isinstance(noise, Noise) else None
            if decide is None:
                return None
            found[row] = decide()[1] == below
        return found
    return None


def _is_less(left: Scalar, right: Scalar, *, or_equal: bool = False) -> bool:
    if type(left) is Noise and type(right) is float:  # the test of every draft
        return not math.isnan(right) and left.is_below(right, inclusive=or_equal)
    left, right = _comparable(left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        return _noise_less(left, right, or_equal=or_equal)
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        stuck("comparison", "two random numbers are compared with each other")
    if isinstance(left, Noise | Product):
        return not math.isnan(right) and left.is_below(right, inclusive=or_equal)
    if isinstance(right, Noise | Product):
        return not math.isnan(left) and not right.is_below(left, inclusive=not or_equal)
    return bool(left <= right if or_equal else left < right)


def _comparable(*values: Scalar) -> list[Scalar]:
    return [value if isinstance(value, Product) else resolved("comparison", value)[0] for value in values]


def _noise_less(left: Noise, right: Noise, *, or_equal: bool) -> bool:
    if _is_same(left, right):
        return or_equal
    (left_low, left_high), (right_low, right_high) = left.bounds, right.bounds
    touch = or_equal or (maps.is_continuous(left.chain) and maps.is_continuous(right.chain))
    if left_high < right_low or (touch and left_high == right_low):
        return True
    if right_high < left_low or (touch and not or_equal and right_high == left_low):
        return False
    return stuck("comparison", "two random numbers are compared with each other")


def _is_same(left: Noise, right: Noise) -> bool:
    return left.draw is right.draw and left.chain == right.chain


@elementwise(np.equal)
def equal(left: Scalar, right: Scalar) -> bool:
    """Whether two scalars are equal; noise that is continuous equals no number."""
    left, right = _comparable(left, right)
    if isinstance(left, Noise) and isinstance(right, Noise):
        if _is_same(left, right) or (maps.is_continuous(left.chain) and maps.is_continuous(right.chain)):
            return _is_same(left, right)
        stuck("comparison", "two random numbers are compared with each other")
    if isinstance(right, Noise):
        left, right = right, left
    if isinstance(left, Noise) and not maps.is_continuous(left.chain):
        return left.is_below(right, inclusive=True) and not left.is_below(right)
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return left is right
    return bool(left == right)


def _is_lost(value: Scalar) -> bool:
    return not isinstance(value, Noise | Pending)


less: Final = elementwise(np.less)(_is_less)
_less_equal: Final = elementwise(np.less_equal)(partial(_is_less, or_equal=True))
elementwise(np.greater)(lambda left, right: less(right, left))
elementwise(np.greater_equal)(lambda left, right: _less_equal(right, left))
elementwise(np.not_equal)(lambda left, right: not equal(left, right))
elementwise(np.isnan)(lambda value: value.settled("isnan") if _is_lost(value) else False)
elementwise(np.isinf)(lambda value: value.settled("isinf") if _is_lost(value) else False)
elementwise(np.isfinite)(lambda value: not _is_lost(value) or value.settled("isfinite"))
