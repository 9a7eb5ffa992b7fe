"""Monotone functions of one uniform number, as chains of elementary steps.

A chain is a tuple of steps, applied from left to right to u in (0, 1). Affine maps, logarithm and
exponential are enough for strictly monotone functions: 1/y is exp(-log y), y**s is exp(s log y), log1p and
expm1 are a step each with an affine one. Integers come of a step that is constant in places: floor.

Chains are kept in a normal form, so that equal functions built in different ways mostly have equal chains,
and so that exponential and Gumbel noise can be recognised (`gumbel_form`).
"""

import math
from collections.abc import Callable, Hashable
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Affine(NamedTuple):
    """The step y -> offset + slope * y, with slope not zero."""

    offset: float
    slope: float


Step: TypeAlias = Affine | Literal["log", "exp", "floor"]
"""An affine step, or the name of a function; floor takes y to the largest integer that is not above it."""

Chain: TypeAlias = tuple[Step, ...]

IDENTITY: Chain = ()
FINE = 2.0**24
"""Equally likely values of which there are so many are idealised: taken for a uniform real number."""

_MOST_KEPT: Final = 400_000
"""Elements of arrays whose results are kept from one run to the next, at most."""

_NEGATION = Affine(0.0, -1.0)
_COMPLEMENT = Affine(1.0, -1.0)


def affine(chain: Chain, offset: float, slope: float) -> Chain:
    """Return ``offset + slope * chain``; the slope must not be zero."""
    if chain[-1:] == ("floor",):
        if slope == 1 and offset == math.floor(offset):
            return floor(affine(chain[:-1], offset, 1.0))
        match chain:
            case (Affine(_, count), _) if abs(count) >= FINE and not _is_integral(offset, slope):
                chain = chain[:-1]
    if chain and isinstance(chain[-1], Affine):
        offset, slope = offset + slope * chain[-1].offset, slope * chain[-1].slope
        chain = chain[:-1]
    return chain if (offset, slope) == (0.0, 1.0) else (*chain, Affine(offset, slope))


def log(chain: Chain) -> Chain:
    """Take the logarithm; that of d y becomes log y plus a constant, that of an exponential is undone."""
    last = chain[-1] if chain else None
    if last == "exp":
        return chain[:-1]
    if isinstance(last, Affine) and last.offset == 0 and last != _NEGATION:
        inner = chain[:-1] if last.slope > 0 else (*chain[:-1], _NEGATION)
        return affine(log(inner), math.log(abs(last.slope)), 1.0)
    return (*chain, "log")


def exp(chain: Chain) -> Chain:
    """Take the exponential; that of a logarithm plus a constant becomes a multiple."""
    match chain[-2:]:
        case (*_, "log"):
            return chain[:-1]
        case ("log", Affine(offset, 1.0)):
            return affine(chain[:-2], 0.0, math.exp(offset))
    return (*chain, "exp")


def floor(chain: Chain) -> Chain:
    """Return the integer part."""
    return chain if is_integral(chain) else (*chain, "floor")


def negation(chain: Chain) -> Chain:
    """Return -chain."""
    return affine(chain, 0.0, -1.0)


def power(chain: Chain, exponent: float) -> Chain:
    """Return chain ** exponent for a positive function and an exponent other than zero."""
    return exp(affine(log(chain), 0.0, exponent))


def is_integral(chain: Chain) -> bool:
    """Whether all values are integers."""
    match chain[-2:]:
        case (*_, "floor"):
            return True
        case ("floor", Affine(offset, slope)):
            return _is_integral(offset, slope)
    return False


def _is_integral(*values: float) -> bool:
    return all(math.isfinite(value) and value == math.floor(value) for value in values)


def is_continuous(chain: Chain) -> bool:
    """Whether no value has a probability of its own."""
    return "floor" not in chain


def value_at(chain: Chain, uniform: float, side: int = 1) -> float:
    """Return the chain's value, with limits at the ends of the domain.

    Where it jumps, the value is that just above ``uniform`` (just below for ``side`` -1).
    """
    value = uniform
    for step in chain:
        match step:
            case Affine(offset, slope):
                value = offset + slope * value
                side = side if slope > 0 else -side
            case "log":
                value = math.log(value) if value > 0 else -math.inf
            case "exp":
                value = _exp(value)
            case "floor" if math.isfinite(value):
                value = float(math.floor(value + side * 4 * math.ulp(value)))  # rounding errors are smaller
    return value


def bounds(chain: Chain, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
    """Return the ends of the chain's range, for a uniform on (low, high)."""
    ends = value_at(chain, low), value_at(chain, high, -1)
    return min(ends), max(ends)


def threshold(chain: Chain, bound: float, *, inclusive: bool = False) -> tuple[float, bool]:
    """Return t and whether the chain increases: it is below ``bound`` iff u < t (u > t if it falls).

    With ``inclusive``, "at most" takes the place of "below". t may lie outside [0, 1], or be infinite: then
    the comparison has one outcome on the whole domain. t is NaN where ``bound`` is so close to a value of
    positive probability that rounding, of the foreign code or ours, decides.
    """
    increasing = exact = True
    for step in reversed(chain):
        match step:
            case Affine(offset, slope):
                bound = (bound - offset) / slope
                increasing ^= slope < 0
                exact &= offset == 0 and (bound == 0 or abs(math.frexp(slope)[0]) == 0.5)
            case "log":
                bound, exact = _exp(bound), False
            case "exp":
                bound, exact = (math.log(bound) if bound > 0 else -math.inf), False
            case "floor" if math.isfinite(bound):
                beyond, slack = increasing == inclusive, 0.0 if exact else 8 * math.ulp(bound)
                lowest, highest = (_jump(bound + far, beyond=beyond) for far in (-slack, slack))
                if lowest != highest:
                    falling = sum(isinstance(step, Affine) and step.slope < 0 for step in chain)
                    return math.nan, falling % 2 == 0
                bound, inclusive = lowest, not increasing
            case "floor":
                inclusive = not increasing
    return bound, increasing


def _jump(bound: float, *, beyond: bool) -> float:
    """Return from where on integer parts are at least ``bound``, or above it if ``beyond``."""
    return math.floor(bound) + 1.0 if beyond else float(math.ceil(bound))


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


class GumbelForm(NamedTuple):
    """A noise as sign * g(location + scale * log E), E standard exponential; g is exp or the identity."""

    exponentiated: bool
    sign: int
    location: float
    scale: float


def gumbel_form(chain: Chain) -> GumbelForm | None:
    """Return the form of a chain built from a standard exponential E = -log u or -log(1 - u), else None."""
    if chain[:1] == (_COMPLEMENT,):
        chain = chain[1:]
    match chain:
        case ("log",):  # -E
            return GumbelForm(exponentiated=True, sign=-1, location=0.0, scale=1.0)
        case ("log", Affine(0.0, slope)):  # -slope * E
            return GumbelForm(True, 1 if slope < 0 else -1, math.log(abs(slope)), 1.0)
        case ("log", Affine(0.0, -1.0), "log", *rest):
            location, scale = 0.0, 1.0
            if rest and isinstance(rest[0], Affine):
                (location, scale), rest = rest[0], rest[1:]
            match rest:
                case []:
                    return GumbelForm(False, 1, location, scale)
                case ["exp"]:
                    return GumbelForm(True, 1, location, scale)
                case ["exp", Affine(0.0, slope)]:
                    return GumbelForm(True, 1 if slope > 0 else -1, location + math.log(abs(slope)), scale)
    return None


class KeptResults(Generic[T]):
    """What was computed of many formulas: they are the same objects in all runs, so that these name it."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[object, T]] = {}
        self._elements = 0

    def result(self, key: Hashable, formulas: object, elements: int, make: Callable[[], T]) -> T:
        """Return what ``make`` makes of so many elements, made at first; the key has the ``formulas``' ids.

        Formulas are kept, so that none takes the identity of one. All are forgotten where there are too many.
        """
        if key not in self._kept:
            made = make()
            if self._elements + elements > _MOST_KEPT:
                self._kept.clear()
                self._elements = 0
            self._elements += elements
            self._kept[key] = formulas, made
        return self._kept[key][1]
