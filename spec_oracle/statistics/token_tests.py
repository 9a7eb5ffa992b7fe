"""Tests of the tokens of long completions: by order, place and row; bets on what verification gets wrong.

A bet is on drafts that are accepted too often, or on corrections that are sampled from p. With the target's p
and the drafter's q both are known distributions of the next token: q itself, and
min(p, q) + (1 - sum min(p, q)) p. A share s of tokens that are distributed so multiplies the evidence by
1 + s (h - 1) each, h the ratio to p; its mean is 1 under the target. This takes as much from a token as p and
q differ there. Where they differ on a few tokens only, that is much more than counts of all tokens show.

>>> bet = Bet("p/q", ACCEPTED, 1.0)
>>> p, q = np.tile([0.5, 0.3, 0.2], (500, 1)), np.tile([0.5, 0.1, 0.4], (500, 1))
>>> bet.observe(p, q, np.random.default_rng(0).choice(3, 500, p=q[0]), np.zeros(500))
>>> bet.log_e_value > 14, round(bet.detects(1e-6), 2)
(True, 0.14)
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import scipy

from spec_oracle.arrays import Floats, Integers
from spec_oracle.statistics.e_process import (
    DEFECT_SIZES,
    concentrations,
    log_e_values_by_size,
    log_e_values_of_equal_cells,
)
from spec_oracle.statistics.intervals import total_variation_at_least
from spec_oracle.statistics.power import DEFAULT_MISS, smallest_detectable_tv_by_joint_e_process

FIRST, LAST = 64, 16
"""So many first places of a completion, and last ones of the longest context, are judged each alone."""

MOST_CELLS: Final = 64
MOST_ROWS: Final = 2000
LEAST_CHANCE: Final = 1e-3
LEAST_DOUBT: Final = 1e-3
"""Of rows that are judged apart: their cells and their number, the chance from which on a token has a cell of
its own, and the part of it by which rows may be off."""

ACCEPTED: Final = "as if drafts were accepted too often"
CORRECTED: Final = "as if corrections were sampled from p"
KINDS: Final = (ACCEPTED, CORRECTED)

SHARES: Final = 0.9 * 0.5 ** np.arange(8)
LARGEST_RATIO: Final = 8.0
"""Of q to p: a larger one counts as this, so that rounding of small p is no evidence."""

SIZES: Final = np.geomspace(0.002, 1.0, 400)
"""Shares of which it is said whether they are detected."""


def _log_e_value(test: "ByOrder | ByPlace | ByRow | Bet") -> float:
    """Log e-value of a test: the mean over its sizes or shares, and over groups of places, nats."""
    return float(np.logaddexp.reduce(test.log_e, axis=None)) - math.log(test.log_e.size)


def _least_tv(counts: Integers, law: Floats, alpha: float, doubt: float = 0.0) -> float:
    """Return a lower confidence bound of the TV of a law that is known up to ``doubt``; 0 without counts."""
    if not counts.any():
        return 0.0
    return max(0.0, total_variation_at_least(counts.ravel(), law, alpha=alpha) - doubt)


@dataclass
class ByOrder:
    """Tokens of one kind in one order: counts of equal bins [G, C] of u, for each of G things known before.

    ``log_e`` [J] are log e-values by size of the defect, ``doubt`` the sum of that of its tokens.
    """

    order: str
    where: str
    weight: float
    counts: Integers
    log_e: Floats = field(default_factory=lambda: np.zeros(len(DEFECT_SIZES)))
    doubt: float = 0.0

    @property
    def name(self) -> str:
        """The order and the tokens."""
        return f"{self.order}, {self.where}"

    @property
    def tokens(self) -> int:
        """How many were counted."""
        return int(self.counts.sum())

    log_e_value = property(_log_e_value)

    def observe(self, cells: Integers, given: Integers, doubt: Floats) -> None:
        """Add tokens int [T], in the order in which they came; each is bet on by those before it.

        The bet on a bin relative to its probability is r_i = (n_i C + a) / (n + a). A right distribution is
        within ``doubt`` of the assumed one, so that the mean of r is 1 + doubt (max r - min r) at most: it is
        divided by that, and stays an e-process for distributions that differ from token to token.
        """
        if not len(cells):
            return
        size, every = self.counts.shape[1], np.arange(len(cells))
        hot = np.zeros((len(cells), *self.counts.shape), dtype=np.int64)
        hot[every, given, cells] = 1
        before = (self.counts + np.cumsum(hot, axis=0) - hot)[every, given]
        a = concentrations(size)
        own, spread = (size * one[:, None] for one in (before[every, cells], np.ptp(before, axis=1)))
        total = before.sum(axis=1)[:, None] + a
        gain = np.log((own + a) / total) - np.log1p(doubt[:, None] * spread / total)
        self.log_e = self.log_e + gain.sum(axis=0)
        self.counts = self.counts + hot.sum(axis=0)
        self.doubt += float(doubt.sum())

    def detects(self, alpha: float) -> float:
        """Return the TV a token between its bins that it detects, infinite where there is none.

        A defect of d in TV adds 2 d^2 a token to the evidence at least, and doubt takes off 4 d doubt.
        """
        groups, size = self.counts.shape
        draws = [self.tokens // groups] * groups
        if not all(draws):
            return math.inf
        laws = [np.full(size, 1 / size)] * groups
        alone = smallest_detectable_tv_by_joint_e_process(draws, laws, alpha=alpha * self.weight)
        return alone + 2 * self.doubt / self.tokens

    def least_tv(self, alpha: float) -> float:
        """Return a lower confidence bound of the TV a token."""
        law = np.full(self.counts.size, 1 / self.counts.size)
        return _least_tv(self.counts, law, alpha, self.doubt / max(self.tokens, 1))


@dataclass
class ByPlace:
    """Tokens in one order, by their place: counts [G, C] of bins of u for each of G groups of places.

    One e-process a group; ``log_e`` [G, J] are log e-values by size of the defect. The e-value of all is
    their mean, so that a defect in one group costs no more than log G nats. Groups of a ``period`` are places
    modulo that number; where it is 0 they are the first places, each alone, and all later ones together.
    Absolute places count the prompt; of a period of 0 they are counted from the end of the longest context.
    """

    order: str
    period: int
    is_absolute: bool
    weight: float
    counts: Integers
    log_e: Floats = field(init=False)
    doubt: float = 0.0

    def __post_init__(self) -> None:
        self.log_e = np.zeros((len(self.counts), len(DEFECT_SIZES)))
        self._without_price = np.zeros_like(self.log_e)

    def observe(self, u: Floats, places: Integers, doubt: Floats) -> None:
        """Add tokens int [T] that came at these places."""
        if not len(u):
            return
        size = self.counts.shape[1]
        given = places % self.period if self.period else np.minimum(places - 1, len(self.counts) - 1)
        cells = np.asarray(u * size, dtype=np.int64)
        self.doubt += float(doubt.sum())
        groups, number = np.unique(given, return_inverse=True)
        np.add.at(self.counts, (given, cells), 1)
        found = log_e_values_of_equal_cells(self.counts[groups])
        # A law within ``doubt`` makes the mean of a bet 1 + doubt size at most: it is divided by that.
        price = np.bincount(number, np.log1p(doubt * size))
        self.log_e[groups] += found - self._without_price[groups] - price[:, None]
        self._without_price[groups] = found

    @property
    def tokens(self) -> int:
        """How many were counted."""
        return int(self.counts.sum())

    log_e_value = property(_log_e_value)

    @property
    def _worst(self) -> int:
        return int(np.logaddexp.reduce(self.log_e, axis=1).argmax())

    @property
    def name(self) -> str:
        """The order and the places with the most evidence."""
        if not self.period and self.is_absolute:
            last = f"{self._worst} places before the last one that the context holds"
            return f"{self.order}, {last if self._worst < LAST else 'before these'}"
        if not self.period:
            beyond = f"from token {len(self.counts)} on"
            return f"{self.order}, {f'token {self._worst + 1}' if self._worst < FIRST else beyond}"
        whole = " of prompt and completion" * self.is_absolute
        return f"{self.order}, at places {self._worst} modulo {self.period}{whole}"

    def least_tv(self, alpha: float) -> float:
        """Return a lower confidence bound of the TV a token at these places."""
        counts = self.counts[self._worst]
        law = np.full(len(counts), 1 / len(counts))
        return _least_tv(counts, law, alpha / len(self.counts), self.doubt / max(self.tokens, 1))


@dataclass
class ByRow:
    """Tokens after equal next-token distributions: counts [C] of each token, for each distribution.

    Models of few contexts, and texts that repeat themselves, have the same distribution again and again.
    What verification gets wrong is another thing in each of them, and cancels in one order for all. The
    e-value is the product over the distributions: a token is bet on by those before it that had the same one.
    ``log_e`` [J] are log e-values by size of the defect.
    """

    weight: float
    counts: dict[bytes, Integers] = field(default_factory=dict)
    doubt: float = 0.0
    tokens: int = 0

    order = "after equal next-token distributions"
    name = order

    def __post_init__(self) -> None:
        self._log_e: dict[bytes, Floats] = {}
        self._laws: dict[bytes, Floats] = {}
        self._prices: dict[bytes, float] = {}
        self.log_e = np.zeros(len(DEFECT_SIZES))

    def observe(self, masses: Floats, came: Integers, doubt: Floats) -> None:
        """Add tokens int [T] by their distributions [T, C]; those that may be off by much are left out."""
        if masses.shape[1] > MOST_CELLS:
            return
        fresh: dict[bytes, Integers] = {}
        prices: dict[bytes, float] = defaultdict(float)
        is_judged = np.isfinite(masses).all(axis=1) & (doubt <= LEAST_DOUBT * LEAST_CHANCE)
        judged = masses[is_judged], came[is_judged].tolist(), doubt[is_judged].tolist()
        for row, cell, off in zip(*judged, strict=True):
            key = row.tobytes()
            if key not in self.counts:
                if len(self.counts) >= MOST_ROWS:
                    continue
                law = self._laws[key] = _likely(row)
                self.counts[key], self._log_e[key] = np.zeros(len(law), np.int64), np.zeros_like(self.log_e)
            size = len(self.counts[key])
            fresh.setdefault(key, np.zeros(size, np.int64))[min(cell, size - 1)] += 1
            # A bet is 1 / LEAST_CHANCE at most, so that its mean is 1 + off / LEAST_CHANCE at most under a
            # law that is off by so much: it is divided by that.
            prices[key] += math.log1p(off / LEAST_CHANCE)
        for key, counts in fresh.items():
            self.counts[key] = self.counts[key] + counts
            found = log_e_values_by_size(self.counts[key], self._laws[key])
            self._prices[key] = self._prices.get(key, 0.0) + prices[key]
            found -= self._prices[key]
            self.log_e, self._log_e[key] = self.log_e + found - self._log_e[key], found
            self.tokens += int(counts.sum())

    log_e_value = property(_log_e_value)

    def least_tv(self, alpha: float) -> float:
        """Return a lower confidence bound of the TV a token after the distribution with the most evidence."""
        if not self.counts:
            return 0.0
        worst = max(self.counts, key=lambda key: float(self._log_e[key].max()))
        return _least_tv(self.counts[worst], self._laws[worst], alpha / len(self.counts))


def _likely(row: Floats) -> Floats:
    """Return the law of the likely tokens of a row, the most probable first; the last cell is all others."""
    count = max(int((row >= LEAST_CHANCE).sum()), 1)
    law = np.append(row[:count], row[count:].sum())
    if law[-1] < LEAST_CHANCE:  # too few to be a cell
        law = np.append(law[:-2], law[-2:].sum())
    return np.asarray(law / law.sum())


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

    log_e_value = property(_log_e_value)

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
        found = (mean + scipy.special.ndtri(DEFAULT_MISS) * np.sqrt(square) >= needed).any(axis=1)
        return float(SIZES[found.argmax()]) * self.largest if found.any() else math.inf
