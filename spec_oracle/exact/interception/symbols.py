"""Values that are not numbers yet: noise (a function of one uniform), and integers decided when first used.

*Invariant.* Given the decisions of a run so far, its draws are independent, and each is uniform on its
interval (`Draw.low`, `Draw.high`), save for draws that are spent. Comparing a noise with a number cuts the
interval of its draw in two; the lengths of the parts are the probabilities of the outcomes, and either part
keeps the invariant. So one draw that is used twice stays one draw. What would break the invariant spends
the draws (a race) or raises `CannotFollowError`.

Uniforms are idealised: real numbers in (0, 1), not multiples of 2^-24 or 2^-53, so that events of probability
zero under the ideal (u = 0, u equal to a threshold, ties) never happen.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeAlias

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.run import NEGLIGIBLE, current_run

Scalar: TypeAlias = Any  # a number (Python, numpy, or 0-d array) or a Symbol


class Symbol:
    """A value the foreign code computes with as if it were a number; arithmetic lives in `arithmetic`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make torch accept symbols among its arguments; `torch_mode` has answered before this is asked."""
        return NotImplemented

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        from spec_oracle.exact.interception.numpy_arrays import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, options)

    def __add__(self, other: Scalar) -> Scalar:
        return _binary("add", self, other)

    def __radd__(self, other: Scalar) -> Scalar:
        return _binary("add", other, self)

    def __sub__(self, other: Scalar) -> Scalar:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Scalar) -> Scalar:
        return _binary("subtract", other, self)

    def __mul__(self, other: Scalar) -> Scalar:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Scalar) -> Scalar:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Scalar) -> Scalar:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Scalar) -> Scalar:
        return _binary("divide", other, self)

    def __pow__(self, other: Scalar) -> Scalar:
        return _binary("power", self, other)

    def __rpow__(self, other: Scalar) -> Scalar:
        return _binary("power", other, self)

    def __neg__(self) -> Scalar:
        return _binary("multiply", self, -1.0)

    def __abs__(self) -> Scalar:
        return _binary("maximum", self, -self)

    def __lt__(self, other: Scalar) -> Any:
        return _binary("less", self, other)

    def __le__(self, other: Scalar) -> Any:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Scalar) -> Any:
        return _binary("greater", self, other)

    def __ge__(self, other: Scalar) -> Any:
        return _binary("greater_equal", self, other)

    def __eq__(self, other: object) -> Any:
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _binary("not_equal", self, other)

    def __float__(self) -> float:
        return float(self.settled("float()"))

    def __index__(self) -> int:
        return int(self.settled("use as an index"))

    def __bool__(self) -> bool:
        return bool(self.settled("bool()"))

    def __int__(self) -> int:
        from spec_oracle.exact.interception.arithmetic import truncate

        return truncate(self)

    __floor__ = __trunc__ = __int__

    def settled(self, operation: str) -> int:
        """Return the number this is; raises `CannotFollowError` when that would be a continuum."""
        current_run().cannot_follow(operation, "a random number has no value while its law is followed")


def _binary(name: str, left: Scalar, right: Scalar) -> Scalar:
    from spec_oracle.exact.interception.arithmetic import FUNCTIONS, is_scalar

    if is_scalar(left) and is_scalar(right):
        return FUNCTIONS[name](left, right)
    return NotImplemented


class Draw:
    """One uniform number on (low, high), given the decisions so far.

    ``spent`` says what used it up; ``ask`` answers comparisons instead when it leads a product of uniforms.
    """

    __slots__ = ("ask", "high", "low", "spent")

    def __init__(self) -> None:
        self.low = 0.0
        self.high = 1.0
        self.spent = ""
        self.ask: Callable[[float], bool] | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is known about it."""
        return self.low == 0.0 and self.high == 1.0 and not self.spent and self.ask is None

    def is_below(self, bound: float) -> bool:
        """Decide whether the uniform is below ``bound``, and narrow its interval accordingly."""
        if self.ask is not None:
            return self.ask(bound)
        share = (bound - self.low) / (self.high - self.low)
        if share <= NEGLIGIBLE:
            return False
        if share >= 1 - NEGLIGIBLE:
            return True
        below = current_run().decide((share, 1 - share)) == 0
        if below:
            self.high = bound
        else:
            self.low = bound
        return below


class Noise(Symbol):
    """A strictly monotone function, ``chain``, of one uniform, ``draw``."""

    __slots__ = ("chain", "draw")

    def __init__(self, draw: Draw, chain: maps.Chain) -> None:
        self.draw = draw
        self.chain = chain

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range of its value, given the decisions so far."""
        ends = (maps.value_at(self.chain, self.draw.low), maps.value_at(self.chain, self.draw.high))
        return min(ends), max(ends)

    def is_below(self, bound: float) -> bool:
        """Decide whether the value is below ``bound``."""
        if self.draw.spent:
            current_run().cannot_follow("comparison", self.draw.spent)
        cut, increasing = maps.threshold(self.chain, bound)
        return self.draw.is_below(cut) == increasing


class Pending(Symbol):
    """An integer that is decided when first used; independent of all that is decided before.

    Deferring is exact: the law of the outcome, given the past, is the same whenever it is asked for. A
    pending integer that nothing ever uses has no influence, and costs no branches.
    """

    __slots__ = ("_choose", "_value")

    def __init__(self, choose: Callable[[], int]) -> None:
        self._choose = choose
        self._value: int | None = None

    def __hash__(self) -> int:  # type: ignore[override]  # a number by the time that it is asked for
        return hash(self.settled())

    def settled(self, operation: str = "") -> int:  # noqa: ARG002  (part of the interface)
        """Decide, or return what was decided."""
        if self._value is None:
            self._value = self._choose()
        return self._value


class Untraceable(Symbol):
    """A value that exists but cannot be followed, such as the highest score of a race; any use raises."""

    __slots__ = ("_origin",)

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def settled(self, operation: str) -> NoReturn:
        """Raise `CannotFollowError`."""
        current_run().cannot_follow(operation, f"the value of {self._origin} cannot be followed")


def uniform() -> Noise:
    """Draw a uniform on (0, 1)."""
    return Noise(Draw(), maps.IDENTITY)


def exponential(rate: float = 1.0) -> Noise:
    """Draw an exponential: -log(u) / rate."""
    return Noise(Draw(), maps.affine(maps.log(maps.IDENTITY), 0.0, -1.0 / rate))


def gumbel(location: float = 0.0, scale: float = 1.0) -> Noise:
    """Draw location - scale * log(E) with E a standard exponential."""
    return Noise(Draw(), maps.affine(maps.log(exponential().chain), location, -scale))


def categorical(weights: list[float]) -> Pending:
    """Draw an index in proportion to ``weights``, decided when first used.

    Raises ValueError, as the libraries do, for weights that are negative, not finite, or all zero.
    """
    if not (all(weight >= 0 and math.isfinite(weight) for weight in weights) and sum(weights) > 0):
        raise ValueError(f"invalid categorical weights: {weights}")
    return Pending(lambda: current_run().decide(weights))


def distinct(weights: list[float], count: int) -> list[Pending]:
    """Draw ``count`` different indices one by one, each in proportion to the weights that are left."""
    drawn: list[Pending] = []

    def choose(earlier: list[Pending]) -> int:
        taken = {pending.settled() for pending in earlier}
        return current_run().decide([0.0 if i in taken else w for i, w in enumerate(weights)])

    for position in range(count):
        drawn.append(Pending(partial(choose, drawn[:position])))
    return drawn
