"""Evidence against a rule: the counts of a log, by their distribution under the rule on the same drafts.

The drafts of a call fix the distribution of its accepted length n, but later contexts depend on n. So the
deciding test assumes nothing of them: for any other distribution that is known before n is, the product over
calls of other(n) / rule(n) has mean 1 at most under the rule, and so has an average over several others. It
exceeds 1 / alpha with probability alpha at most, however often the log is looked at (Ville's inequality). The
others are: every acceptance probability times one factor; the rule's distribution tilted by e^(lambda n); the
other rules; and the same in some calls only, or one token more there (`spec_oracle.acceptance.where`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy

from spec_oracle.arrays import Booleans, Floats, Integers
from spec_oracle.statistics import DEFAULT_MISS

LOG_FACTORS = np.concatenate([sign * 0.7 * 0.8 ** np.arange(32) for sign in (-1.0, 1.0)])
"""Of all acceptance probabilities: a factor between two of these costs little evidence."""

LEAST = 1e-4
"""Chance of what the rule rules out, in distributions that are off in some calls only."""

MORE = 0.9
"""Chance of at least one token where counts are one too many, for some calls are taken for others."""

LOG_TILTS = np.concatenate([sign * 0.5 ** np.arange(8) for sign in (-1.0, 1.0)])

WIDEST = 4.0
"""Largest log factor that is fitted."""

CONFIDENCE = 0.95
"""Of intervals, and of a share that passes a gate."""

BETS = 0.5 ** np.arange(1, 10)
"""Stakes of the test of a share, as parts of the largest without ruin."""

HIGHEST_SHARE = 2.0
"""Up to which a share is bounded."""

BISECTIONS = 40


@dataclass(frozen=True)
class Chances:
    """Probability to accept each draft once the ones before it are accepted, [N, L]: known, and bounds."""

    known: Floats
    lower: Floats
    upper: Floats

    def times(self, log_factor: float) -> "Chances":
        """Return every chance times a factor, 1 at most."""
        factor = math.exp(log_factor)
        return Chances(*(np.minimum(1.0, factor * one) for one in (self.known, self.lower, self.upper)))

    @cached_property
    def log_pmf(self) -> Floats:
        """Log P(n), n = 0..L, [N, L+1]."""
        return log_pmf(self.known)

    @cached_property
    def log_most(self) -> Floats:
        """The largest log P(n) that the bounds allow, [N, L+1]."""
        return log_pmf(self.upper, self.lower)

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Least and largest expected accepted length of each call, two arrays [N]."""
        low, high = (np.cumprod(one, axis=1).sum(axis=1) for one in (self.lower, self.upper))
        return low, high


def log_pmf(chances: Floats, lower: Floats | None = None) -> Floats:
    """Return log P(n), n = 0..L, [N, L+1], by chances to go on; the ``lower`` ones, if given, are to stop."""
    column = np.zeros((len(chances), 1))
    with np.errstate(divide="ignore"):
        kept, failed = np.cumsum(np.log(chances), axis=1), np.log1p(-(chances if lower is None else lower))
    return np.asarray(np.hstack([column, kept]) + np.hstack([failed, column]))


@dataclass(frozen=True)
class AcceptanceEvidence:
    """The counts ``accepted`` int [N], the ``chances`` of the rule, and those [N, L] of ``others``.

    ``parts`` of the calls, by name, are known before their counts are: bool [N, L], the drafted tokens.
    """

    accepted: Integers
    chances: Chances
    others: Sequence[Floats] = field(default=())
    parts: Mapping[str, Booleans] = field(default_factory=dict)

    def _logs(self, logs: Floats) -> Floats:
        return np.take_along_axis(logs, self.accepted[:, None], axis=1)[:, 0]

    def log_of(self, logs: Floats) -> float:
        """Return the log likelihood of the counts under log P(n), [N, L+1]."""
        return float(self._logs(logs).sum())

    @cached_property
    def log_families(self) -> list[list[float]]:
        """Log likelihoods of the counts under alternatives to the rule, in all calls or in a part of them."""
        return [*self.log_everywhere, *map(self.log_of_part, self.parts.values())]

    @cached_property
    def log_everywhere(self) -> list[list[float]]:
        """Log likelihoods of the counts under alternatives in all calls: factors, tilts, and other rules."""
        own, lengths = self.chances.log_pmf, np.arange(self.chances.log_pmf.shape[1])
        tilted = [own + size * lengths for size in LOG_TILTS]
        families = [
            [self.log_of(self.chances.times(size).log_pmf) for size in LOG_FACTORS],
            [float((self._logs(one) - np.logaddexp.reduce(one, axis=1)).sum()) for one in tilted],
            [self.log_of(log_pmf(other)) for other in self.others],
        ]
        return [family for family in families if family]

    def log_of_part(self, part: Booleans) -> list[float]:
        """Return log likelihoods of the counts under alternatives in the calls of a part [N, L]."""
        lengths = np.outer(part.any(axis=1), np.arange(part.shape[1] + 1))
        weighted = [self.log_of(normalised(self.lenient_log_pmf + size * lengths)) for size in LOG_TILTS]
        return [*weighted, *self.log_of_decisions(part)]

    def log_of_decisions(self, some: Booleans) -> list[float]:
        """Return log likelihoods of the counts under other chances of ``some`` drafted tokens, [N, L]."""
        chances = self.lenient
        first = np.full((len(chances), 1), MORE)
        others = [
            *(math.exp(size) * chances for size in LOG_FACTORS[::4]),
            np.hstack([first, chances[:, :-1]]),
        ]
        altered = (np.where(some, one.clip(LEAST, 1 - LEAST), chances) for one in others)
        return [self.log_of(log_pmf(one)) for one in altered]

    @cached_property
    def lenient(self) -> Floats:
        """The chances of the rule, [N, L], none of them 0 or 1."""
        return self.chances.known.clip(LEAST, 1 - LEAST)

    @cached_property
    def lenient_log_pmf(self) -> Floats:
        """Log P(n), n = 0..L, [N, L+1], none of them minus infinity."""
        return log_pmf(self.lenient)

    @cached_property
    def log_e_value(self) -> float:
        """Log of the average of other(n) / rule(n): nats of evidence against the rule."""
        null = self.log_of(self.chances.log_most)
        if null == -math.inf:
            return math.inf
        return log_mean([*map(log_mean, self.log_families)]) - null

    @property
    def p_value(self) -> float:
        """Of the rule, valid whatever the contexts depend on, and at any time."""
        return min(1.0, math.exp(-max(0.0, self.log_e_value)))

    def factor(self) -> tuple[float, float, float]:
        """Return the factor of all acceptance probabilities that fits best, and an interval around it.

        By the likelihood ratio: coverage `CONFIDENCE` in the limit of many calls. The logarithm of the
        likelihood is concave in that of the factor.
        """
        best = self._best_size
        least = self.log_of_best_factor - float(scipy.stats.chi2.ppf(CONFIDENCE, 1)) / 2
        low, high = (_last(lambda size: self._fit(size) >= least, best, end) for end in (-WIDEST, WIDEST))
        return math.exp(best), math.exp(low), math.exp(high)

    @property
    def log_of_best_factor(self) -> float:
        """Log likelihood of the counts under the factor that fits best."""
        return self._fit(self._best_size)

    @cached_property
    def _best_size(self) -> float:
        search = scipy.optimize.minimize_scalar(
            lambda size: -max(self._fit(size), -1e12), bounds=(-WIDEST, WIDEST), method="bounded"
        )
        return float(max((search.x, 0.0), key=self._fit))

    def _fit(self, size: float) -> float:
        return self.log_of(self.chances.times(size).log_most)

    def share_at(self, factor: float) -> float:
        """Return the share of the expected tokens that is accepted with all probabilities times a factor."""
        if factor == 0:
            return 0.0
        expected = np.cumprod(self.chances.known, axis=1).sum()
        return float(np.cumprod(self.chances.times(math.log(factor)).known, axis=1).sum() / expected)

    @property
    def impossible(self) -> int:
        """Calls whose count has probability 0 under the rule."""
        return int((self._logs(self.chances.log_most) == -math.inf).sum())

    def detects(self, alpha: float) -> tuple[float, float]:
        """Return the nearest factors below and above 1 that are found with probability 1 - `DEFAULT_MISS`.

        0 and infinity where none is. By a normal approximation of the sum of logarithms.
        """
        needed = math.log((2 + bool(self.others) + len(self.parts)) * len(LOG_FACTORS) / alpha)
        nearest = sorted(LOG_FACTORS, key=abs)
        below = (size for size in nearest if size < 0 and self._least_evidence(size) >= needed)
        above = (size for size in nearest if size > 0 and self._least_evidence(size) >= needed)
        return math.exp(next(below, -math.inf)), math.exp(next(above, math.inf))

    def _least_evidence(self, size: float) -> float:
        """Return the nats against the rule that all but `DEFAULT_MISS` of such logs give.

        Of logs whose acceptance probabilities are exp(``size``) times those of the rule.
        """
        other = self.chances.times(size).log_pmf
        masses, own = np.exp(other), self.chances.log_most
        gains = np.zeros_like(masses)
        np.subtract(other, own, out=gains, where=masses > 0)
        gains = np.minimum(gains, 50.0)
        mean = (masses * gains).sum(axis=1)
        variance = ((masses * gains**2).sum(axis=1) - mean**2).sum()
        quantile = float(scipy.stats.norm.isf(DEFAULT_MISS))
        return float(mean.sum() - quantile * math.sqrt(max(0.0, variance)))


def normalised(logs: Floats) -> Floats:
    """Return log weights [N, L+1] as log probabilities."""
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))


def log_mean(logs: Sequence[float]) -> float:
    """Return the log of the mean of numbers that are given by their logs."""
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def share_bounds(
    accepted: Integers, expected: tuple[Floats, Floats], longest: int, rate: float
) -> tuple[float, float]:
    """Return confidence bounds, each missing at ``rate``, of the accepted share of the expected tokens.

    ``expected`` are least and largest lengths, two arrays [N]; ``longest`` is L. That the share is g or more,
    by any rule, on average over the calls, is refuted by bets on less: their wealth, the product over calls
    of 1 + s (g E - n) / L averaged over stakes s, then has mean 1 at most (Waudby-Smith & Ramdas, J. R. Stat.
    Soc. B 86, 2024, with stakes fixed beforehand). That it is g or less is refuted by the reverse bets. The
    bounds lie in [0, `HIGHEST_SHARE`].
    """

    def is_refuted(share: float, sign: int, of: Floats) -> bool:
        wealth = np.log1p(BETS[:, None] * sign * (share * of - accepted)[None, :] / longest).sum(axis=1)
        return log_mean(wealth) >= -math.log(rate)

    least, most = expected
    with np.errstate(divide="ignore"):
        lower = _last(lambda share: is_refuted(share, -1, most), 0.0, HIGHEST_SHARE)
        upper = _last(lambda share: is_refuted(share, 1, least), HIGHEST_SHARE, 0.0)
    return lower, upper


def _last(holds: Callable[[float], bool], start: float, end: float) -> float:
    """Return the last number on the way from ``start`` to ``end`` for which something holds."""
    if not holds(start):
        return start
    if holds(end):
        return end
    for _ in range(BISECTIONS):
        middle = (start + end) / 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start
