"""Bets on what verification gets wrong: drafts that are accepted too often, corrections sampled from p.

With the target's p and the drafter's q both are known distributions of the next token: q itself, where every
draft is accepted, and min(p, q) + (1 - sum min(p, q)) p, where corrections are sampled from p. A share s of
tokens that are distributed so multiplies the evidence by 1 + s (h - 1) each, h the ratio to p; its mean is 1
under the target. This takes as much from a token as p and q differ there. Where they differ on a few tokens
only, that is much more than counts of all tokens show.

>>> bet = Bet("p/q", ACCEPTED, 1.0)
>>> p, q = np.tile([0.5, 0.3, 0.2], (500, 1)), np.tile([0.5, 0.1, 0.4], (500, 1))
>>> bet.observe(p, q, np.random.default_rng(0).choice(3, 500, p=q[0]), np.zeros(500))
>>> bet.log_e_value > 14, round(bet.detects(1e-6), 2)
(True, 0.14)
"""

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import scipy

from spec_oracle.arrays import Floats, Integers
from spec_oracle.statistics.power import DEFAULT_MISS

ACCEPTED: Final = "as if drafts were accepted too often"
CORRECTED: Final = "as if corrections were sampled from p"
KINDS: Final = (ACCEPTED, CORRECTED)

SHARES: Final = 0.9 * 0.5 ** np.arange(8)
LARGEST_RATIO: Final = 8.0
"""Of q to p: a larger one counts as this, so that rounding of small p is no evidence."""

SIZES: Final = np.geomspace(0.002, 1.0, 400)
"""Shares of which it is said whether they are detected."""


@dataclass
class Bet:
    """One kind of error by the rows of one drafter; ``log_e`` [J] by share, and what is needed for `detects`.

    ``apart`` is the sum over tokens of the total variation of the error. ``mean`` [2, J] and ``square``
    [2, J] are sums of the expected logarithm and its square: under the target, and by how much more with each
    share of wrong tokens.
    """

    order: str
    where: str
    weight: float
    tokens: int = 0
    doubt: float = 0.0
    apart: float = 0.0
    log_e: Floats = field(default_factory=lambda: np.zeros(len(SHARES)))
    mean: Floats = field(default_factory=lambda: np.zeros((2, len(SHARES))))
    square: Floats = field(default_factory=lambda: np.zeros((2, len(SHARES))))

    @property
    def name(self) -> str:
        """The order and the kind."""
        return f"{self.order}, {self.where}"

    @property
    def log_e_value(self) -> float:
        """Average over the shares, nats."""
        return float(np.logaddexp.reduce(self.log_e)) - math.log(len(self.log_e))

    @property
    def largest(self) -> float:
        """TV a token where all are distributed so."""
        return self.apart / self.tokens if self.tokens else math.inf

    def observe(
        self, p: Floats, q: Floats, came: Integers, doubt: Floats, relative: Floats | float = math.inf
    ) -> None:
        """Add tokens: rows [T, C] by target and drafter, the cells int [T] that came, doubt in p [T].

        A right distribution is within ``doubt`` in total variation of p, its ratio to p within ``relative``
        of 1: the mean of a bet r is 1 + doubt (max r - min r) at most, and 1 + relative sum p abs(r - 1). The
        bet is divided by the smaller one.
        """
        ratio = np.minimum(np.divide(q, p, out=np.zeros_like(p), where=p > 0), LARGEST_RATIO)
        if self.where == CORRECTED:
            ratio = np.minimum(ratio, 1.0)
            ratio += 1 - (p * ratio).sum(axis=1, keepdims=True)
        else:
            ratio /= np.maximum((p * ratio).sum(axis=1, keepdims=True), 1 / LARGEST_RATIO)
            ratio += 1 - (p * ratio).sum(axis=1, keepdims=True)
        over = np.where(p > 0, ratio - 1, 0.0)
        apart = (p * np.abs(over)).sum(axis=1)
        surplus = doubt * np.ptp(over, axis=1)
        surplus = np.fmin(surplus, np.where(apart > 0, relative, 0.0) * apart)
        price = np.log1p(surplus[:, None] * SHARES)
        gain = np.log1p(over[..., None] * SHARES) - price[:, None]
        self.log_e = self.log_e + gain[np.arange(len(came)), came].sum(axis=0)
        weights = np.stack([p, p * over])
        self.mean = self.mean + np.einsum("wtc,tcj->wj", weights, gain)
        self.square = self.square + np.einsum("wtc,tcj->wj", weights, gain**2)
        self.apart += float(apart.sum()) / 2
        self.tokens, self.doubt = self.tokens + len(came), self.doubt + float(doubt.sum())

    def detects(self, alpha: float) -> float:
        """Return the TV a token, on average over those looked at, that is detected; may be infinite.

        By a normal approximation of the sum of logarithms, but for a chance of `DEFAULT_MISS`.
        """
        needed = math.log(len(SHARES) / (alpha * self.weight))
        mean = self.mean[0] + SIZES[:, None] * self.mean[1]
        square = np.maximum(self.square[0] + SIZES[:, None] * self.square[1], 0.0)
        found = (mean - scipy.stats.norm.isf(DEFAULT_MISS) * np.sqrt(square) >= needed).any(axis=1)
        return float(SIZES[found.argmax()]) * self.largest if found.any() else math.inf
