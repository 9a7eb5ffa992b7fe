"""Products of uniforms, u_1 u_2 ... u_k, compared with numbers.

A product is below b iff fewer than k events of a Poisson process of rate one happened until -log b
(docs/theory.md, "Enumeration"). So comparisons of u_1, u_1 u_2, u_1 u_2 u_3, ... with numbers fix lower and
upper limits of its counts at some times: a walk over these times with independent Poisson increments. The
law is exact; the factors are used up by their product.
"""

import math
from functools import partial
from typing import NamedTuple

from spec_oracle.exact.interception.draws import Draw, Noise
from spec_oracle.exact.interception.maps import IDENTITY
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Symbol

_SPENT = "the random number is a factor of a product, only the product is traced"


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
