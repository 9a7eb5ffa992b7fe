"""Noise: a function of one uniform number, and products of uniforms.

*Invariant.* Given the decisions of a run so far, its draws are independent, and each is uniform on its
interval (`Draw.low`, `Draw.high`), except for draws that are spent. Comparing a noise with a number cuts the
interval of its draw in two; the lengths of the parts are the probabilities of the outcomes, and either part
keeps the invariant. So one draw that is used twice stays one draw. What would break the invariant spends
the draws (a race) or raises `CannotTraceError`.

Uniforms are idealised: real numbers in (0, 1), not multiples of 2^-24 or 2^-53, so that events of probability
zero under the ideal (u = 0, u equal to a threshold, ties) never happen, and a conversion between float64 and
float32 changes nothing. Integers are rounded exactly.

*Products* of uniforms, u_1 u_2 ... u_k, are compared with numbers, too. A product is below b iff fewer than k
events of a Poisson process of rate one happened until -log b (docs/theory.md, "Enumeration"). So comparisons
of u_1, u_1 u_2, u_1 u_2 u_3, ... with numbers fix lower and upper limits of its counts at some times: a walk
over these times with independent Poisson increments. The law is exact; the factors are used up by their
product.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from spec_oracle.exact.interception import maps, symbols
from spec_oracle.exact.interception.maps import IDENTITY
from spec_oracle.exact.interception.run import MOST_GUARDED, Afterwards, current_run
from spec_oracle.exact.interception.symbols import Symbol
from spec_oracle.exact.representatives import NEGLIGIBLE, OPEN, Law

LARGEST_RANGE: Final = 4096
"""Most integers between which a random number is decided."""

_SPENT = "the random number is a factor of a product, only the product is traced"


class Draw:
    """One uniform number on (low, high), given the decisions so far.

    ``spent`` says what used it up; ``ask`` answers comparisons instead when it leads a product of uniforms.
    ``guarded`` is the probability of its values that clamps change which were left out: a decision by the
    draw accounts for it (`pay`; a race accounts for less). ``is_fresh``: no decision has narrowed it or used
    it up; it is stored, since races ask it of one draw a token. Who makes a draw counts it as a step.
    """

    __slots__ = ("ask", "guarded", "high", "is_fresh", "low", "spent")

    def __init__(self) -> None:
        self.low = 0.0
        self.high = 1.0
        self.guarded = 0.0
        self.spent = ""
        self.ask: Callable[[float], bool] | None = None
        self.is_fresh = True

    def narrow(self, low: float, high: float) -> None:
        """Set the interval that the decisions so far leave to it."""
        self.low, self.high = low, high
        self.is_fresh = low == 0.0 and high == 1.0 and not self.spent and self.ask is None

    def spend(self, reason: str) -> None:
        """Use it up; an error names the ``reason``."""
        self.spent, self.is_fresh = reason, False

    def answer_by(self, ask: Callable[[float], bool]) -> None:
        """Let a product of uniforms, which it leads, answer its comparisons."""
        self.ask, self.is_fresh = ask, False

    def is_below(self, bound: float) -> bool:
        """Decide whether the uniform is below ``bound``, and narrow its interval accordingly."""
        self.pay()
        if self.ask is not None:
            return self.ask(bound)
        share = (bound - self.low) / (self.high - self.low)
        if share <= NEGLIGIBLE:
            return False
        if share >= 1 - NEGLIGIBLE:
            return True
        below = current_run().decide((share, 1 - share)) == 0
        if below:
            self.narrow(self.low, bound)
        else:
            self.narrow(bound, self.high)
        return below

    def rank(self, bounds: Law) -> int:
        """Decide how many of the ``bounds``, which ascend, are below the uniform, and narrow its interval."""
        self.pay()
        edges = np.concatenate([[self.low], np.clip(bounds, self.low, self.high), [self.high]])
        number = current_run().decide(np.diff(edges))
        if number != OPEN:
            self.narrow(float(edges[number]), float(edges[number + 1]))
        return number

    def pay(self) -> None:
        """Account for what the clamps change that were left out."""
        if self.guarded:
            current_run().leave_out(self.guarded)
            self.guarded = 0.0


class Noise(Symbol):
    """A monotone function, ``chain``, of one uniform, ``draw``."""

    __slots__ = ("chain", "draw")

    def __init__(self, draw: Draw, chain: maps.Chain) -> None:
        self.draw = draw
        self.chain = chain

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What it passes for."""
        return int if maps.is_integral(self.chain) else symbols.DOUBLE

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range of its value, given the decisions so far."""
        return maps.bounds(self.chain, self.draw.low, self.draw.high)

    def settled(self, operation: str) -> float:
        """Draw its value if the run is over; raises `CannotTraceError` in one."""
        run, draw = current_run(), self.draw
        if not isinstance(run, Afterwards) or draw.spent:
            return super().settled(operation)
        low = run.between(draw.low, draw.high)
        draw.narrow(low, math.nextafter(low, 1.0))
        return maps.value_at(self.chain, draw.low)

    def is_below(self, bound: float, *, inclusive: bool = False) -> bool:
        """Decide whether the value is below ``bound`` (at most that, if ``inclusive``)."""
        current_run().step()
        if self.draw.spent:
            current_run().cannot_trace("comparison", self.draw.spent)
        cut, increasing = maps.threshold(self.chain, bound, inclusive=inclusive)
        if math.isnan(cut):
            current_run().cannot_trace("comparison", f"rounding decides whether it equals {bound}")
        return self.draw.is_below(cut) == increasing

    def share_below(self, bound: float) -> float:
        """Return the probability that the value is below ``bound``, given the decisions so far."""
        cut, increasing = maps.threshold(self.chain, bound)
        share = min(max((cut - self.draw.low) / (self.draw.high - self.draw.low), 0.0), 1.0)
        return share if increasing else 1.0 - share


IS_FRESH: Final[Callable[[Noise], bool]] = attrgetter("draw.is_fresh")
"""Whether no decision has narrowed or used up the draw of a noise."""


def is_clamp_left_out(noises: Sequence[Noise], limit: float, *, from_below: bool) -> bool:
    """Leave a clamp by ``limit`` out of noises that are one formula, and of which the same is known.

    False where that would change too much. What it changes is noted at each draw.
    """
    share = noises[0].share_below(limit)
    share = share if from_below else 1.0 - share
    if not share <= MOST_GUARDED or noises[0].draw.spent:
        return False
    if share > NEGLIGIBLE:
        for noise in noises:
            noise.draw.guarded += share
    return True


class _CountBound(NamedTuple):
    """At ``time`` the count is at least ``low`` and below ``high``."""

    time: float
    low: int
    high: float


class GrowingProduct:
    """A growing sequence of uniforms whose partial products are compared."""

    def __init__(self, first: Draw) -> None:
        self.length = 1
        self._limits: list[_CountBound] = []
        if first.high < 1:
            self._limits.append(_CountBound(-math.log(first.high), 0, 1))
        if first.low > 0:
            self._limits.append(_CountBound(-math.log(first.low), 1, math.inf))
        first.pay()
        first.answer_by(partial(self.is_below, 1))

    def extend(self, draw: Draw) -> None:
        """Multiply by one more fresh uniform."""
        if not draw.is_fresh:
            current_run().cannot_trace("multiplication", "one factor is a random number that was used before")
        draw.pay()
        draw.spend(_SPENT)
        self.length += 1

    def is_below(self, count: int, bound: float) -> bool:
        """Decide whether the product of the first ``count`` factors is below ``bound``."""
        if bound <= 0 or bound >= 1:
            return bound >= 1
        below, above = (
            _CountBound(-math.log(bound), 0, count),
            _CountBound(-math.log(bound), count, math.inf),
        )
        options = [sorted([*self._limits, limit]) for limit in (below, above)]
        chances = [self._probability_of(limits) for limits in options]
        outcome = current_run().decide(chances)
        self._limits = options[outcome]
        return outcome == 0

    def _probability_of(self, limits: list[_CountBound]) -> float:
        """Return the probability that the counting process keeps all limits; times ascend."""
        # law[n]: probability of count n so far; counts from `top` on are one.
        top = max([self.length, *(limit.low for limit in limits)])
        law, now = [1.0] + [0.0] * top, 0.0
        for time, low, high in limits:
            law = [chance if low <= n < high else 0.0 for n, chance in enumerate(_after(law, time - now))]
            now = time
        return math.fsum(law)


def _after(law: list[float], duration: float) -> list[float]:
    """Return the law of the count after a further ``duration``; the last entry collects all larger counts."""
    top = len(law) - 1
    steps = [math.exp(-duration) * duration**k / math.factorial(k) for k in range(top)]
    later = [math.fsum(law[n] * steps[count - n] for n in range(count + 1)) for count in range(top)]
    return [*later, max(math.fsum(law) - math.fsum(later), 0.0)]


class Product(Symbol):
    """The product of the first ``count`` uniforms of a sequence: compared, or multiplied further."""

    __slots__ = ("count", "factors")

    def __init__(self, factors: GrowingProduct, count: int) -> None:
        self.factors = factors
        self.count = count

    def is_below(self, bound: float, *, inclusive: bool = False) -> bool:  # noqa: ARG002  (of probability 0)
        """Decide whether the product is below ``bound``."""
        return self.factors.is_below(self.count, bound)


def product(left: Noise | Product, right: Noise | Product) -> Product:
    """Return the product of a uniform, or of a product of uniforms, with a fresh uniform."""
    if isinstance(left, Noise) and isinstance(right, Product):
        left, right = right, left
    refuse = partial(current_run().cannot_trace, "multiplication")
    if isinstance(right, Product) or right.chain != IDENTITY:
        refuse("the product of two random numbers that are not uniforms")
    if isinstance(left, Noise):
        if left.chain != IDENTITY or left.draw.spent or left.draw.ask or left.draw is right.draw:
            refuse("the product of two random numbers, not both fresh uniforms")
        left = Product(GrowingProduct(left.draw), 1)
    if left.count != left.factors.length:
        refuse("one product of random numbers is multiplied twice")
    left.factors.extend(right.draw)
    return Product(left.factors, left.count + 1)
