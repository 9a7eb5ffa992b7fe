"""What each test can find: the smallest detectable total variation, and the draws needed for a given one.

Two error rates belong to every test. ``alpha`` is the chance of a false alarm when the law is right;
``miss`` is the chance of no alarm when the law is off by the total variation in question, *in the least
favourable way*. The functions come in pairs, named after the test they speak of:

* ``smallest_detectable_tv_by_<test>(draws, probabilities, alpha=, miss=)``: every law at least that far from
  ``probabilities`` raises an alarm with probability 1 - miss or more; `math.inf` when none is sure to.
* ``draws_needed_by_<test>(tv, probabilities, alpha=, miss=)``: draws for which the above is at most ``tv``.

The second inverts the first by bisection, so the two agree for every pair of rates. Both raise
`InvalidInputError` for bad laws, rates, numbers of draws and total variations.

The least favourable defect of total variation d has the chi-square distance 4 d^2 (docs/theory.md,
"Statistics"): all of a set of mass 1/2 grows by one factor, the rest shrinks by another. Mass e moved off the
support takes at most e off d but adds n e to the log of 1 / miss; beyond a few dozen draws that is a bargain
for the test. Where the law has a single outcome it is the only defect there is. G and the e-process's
evidence have limit laws, and their power is the limit's: the non-central chi-square with n times that
distance.

There is one false-alarm rate for a whole run, and `split` divides it before anything is drawn
(docs/theory.md, "Statistics"). Parts depend neither on order, nor on which worker runs what, nor on what
other tests found. Nothing is handed out twice: a retry has no rate.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

from spec_oracle.arrays import Floats
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.cells import Cells, pooled_cells, support_cells
from spec_oracle.statistics.e_process import DEFECT_SIZES, concentrations
from spec_oracle.validation import is_real, require_draws, require_law, require_numbers, require_rate

DEFAULT_ALPHA = 1e-6
"""Chance that a run over correct subjects raises any false alarm."""

DEFAULT_MISS = 1e-3
"""Chance of missing a defect of the stated size, unless told otherwise."""

LARGEST_NONCENTRALITY = 1e8
"""Up to which scipy's non-central chi-square law is asked; it answers NaN from about 1e11 on.

Beyond, with a slack of some nats or more draws than anyone makes, no total variation is said to be found.
"""

MOST_DRAWS = 2**50
"""Where the search for a sufficient number of draws gives up."""

_NEWTON_STEPS = 100
"""More than the search for a threshold takes: its steps soon double the digits."""


def split(alpha: float, tests: int) -> float:
    """Return the rate of each of ``tests`` tests that share ``alpha``.

    >>> split(1e-6, 4)
    2.5e-07
    """
    require_rate(alpha, "alpha")
    if tests < 1:
        raise InvalidInputError(f"tests: expected at least 1, got {tests}")
    return alpha / tests


def smallest_detectable_tv_by_g(
    draws: int,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    miss: float = DEFAULT_MISS,
    slack: npt.ArrayLike = 0.0,
) -> float:
    """Smallest TV that the G test finds, over the cells it pools; what pooling can hide is added.

    ``slack`` as for `goodness_of_fit_by_g`: the threshold is that of the farthest law that is still right.
    """
    return _limit_of_g(draws, probabilities, alpha, slack).smallest_tv(miss)


def excluded_tv_by_g(
    statistic: float, draws: int, probabilities: npt.ArrayLike, *, miss: float = DEFAULT_MISS
) -> float:
    """Smallest TV whose G would exceed the ``statistic`` that was found with a probability of 1 - ``miss``.

    Of the cells that it pools, as for `smallest_detectable_tv_by_g`, with the statistic in place of the
    threshold. A law that is off by as much, or more, is missed with that chance where it is taken for right.
    """
    cells = pooled_cells(probabilities, draws)
    return _Limit(draws, len(cells) - 1, statistic, cells.hidden_mass).smallest_tv(miss)


def smallest_detectable_tv_by_joint_e_process(
    draws: Sequence[int], laws: Sequence[npt.ArrayLike], *, alpha: float, miss: float = DEFAULT_MISS
) -> float:
    """Smallest TV that an e-process finds when *each* of I samples is off by that much.

    ``draws`` I numbers, some but not all of them 0, ``laws`` I arrays [V_i]. Samples follow their laws
    independently of each other.

    In the limit of many draws the log e-value of a prior with concentration a is a function of Pearson's
    statistic X^2: the observed deviations are Gaussian with covariance (diag p - p p') / n, the prior adds
    the same covariance over a, and the ratio of the two densities gives

        log e = X^2/2 * n / (n + a) - (C - 1)/2 * log(1 + n / a).

    Over several samples the statistics and the degrees of freedom add up; the smallest of their factors
    n / (n + a) is used for all, which can only understate the evidence. The statistic at which the average
    over the ladder of priors reaches 1 / alpha then plays the part of a chi-square threshold; 2 / alpha with
    several samples, since half of the bet is on a defect in one of them. Earlier looks can only add to the
    chance of an alarm.
    """
    return _limit_of_joint(draws, [support_cells(law) for law in laws], alpha).smallest_tv(miss)


def smallest_detectable_tv_by_homogeneity(
    draws: tuple[int, int], num_cells: int, *, alpha: float, miss: float = DEFAULT_MISS
) -> float:
    """Smallest TV between the laws of two samples, over C cells, that the two-sample G test finds.

    Twice the log likelihood ratio has non-centrality n m / (n + m) times sum (p_i - p'_i)^2 / mean_i, with
    the mean weighted by the draws n and m; by Cauchy-Schwarz that is at least 4 d^2 n m / (n + m).
    """
    require_rate(alpha, "alpha")
    first, second = map(require_draws, draws)
    if num_cells < 2:
        return math.inf
    # n m / (n + m) draws of one sample tell as much.
    freedom, together = num_cells - 1, first * second / (first + second)
    return _Limit(together, freedom, float(scipy.special.chdtri(freedom, alpha))).smallest_tv(miss)


def draws_needed_by_g(
    tv: float,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    miss: float = DEFAULT_MISS,
    slack: npt.ArrayLike = 0.0,
) -> int:
    """Draws with which the G test finds every defect of total variation ``tv`` or more."""
    return _draws_needed_by_g(tv, _kept(probabilities), alpha, miss, _kept(slack, "slack"))


def draws_needed_by_joint_e_process(
    tv: float, laws: Sequence[npt.ArrayLike], *, alpha: float, miss: float = DEFAULT_MISS
) -> int:
    """Draws *per sample* by which an e-process has found a TV of ``tv`` or more in each of the samples."""
    return _draws_needed_by_joint_e_process(tv, tuple(map(_kept, laws)), alpha, miss)


@dataclass(frozen=True)
class _Limit:
    """A test in the limit of many draws: it alarms where a chi-square variable exceeds ``threshold``.

    Its non-centrality is 4 n d^2 at least, for ``draws`` n and a total variation d beyond what cells hide.
    """

    draws: float
    freedom: int
    threshold: float
    hidden: float = 0.0

    def smallest_tv(self, miss: float) -> float:
        """Return the smallest total variation that is missed with probability ``miss`` at most."""
        require_rate(miss, "miss")
        if self.freedom == 0:  # mass off the support shows at least once, but for a chance (1 - tv)^n = miss
            seen = -math.expm1(math.log(miss) / self.draws)
        elif self.threshold == math.inf:
            return math.inf
        else:
            noncentrality = _noncentrality_found(self.threshold, self.freedom, miss)
            seen = math.sqrt(noncentrality / (4 * self.draws))
        tv = self.hidden + seen
        return tv if tv <= 1 else math.inf


def _limit_of_g(draws: int, probabilities: npt.ArrayLike, alpha: float, slack: npt.ArrayLike) -> _Limit:
    """Return the limit of G over the cells that it pools."""
    require_rate(alpha, "alpha")
    cells = pooled_cells(probabilities, draws)
    freedom, threshold = len(cells) - 1, 0.0
    if freedom:
        # The largest non-centrality under a law that is right.
        allowed = draws * cells.largest_distance(require_law(probabilities), slack)
        threshold = noncentral_threshold(alpha, freedom, allowed)
    return _Limit(draws, freedom, threshold, cells.hidden_mass)


def _limit_of_joint(draws: Sequence[int], cells: Sequence[Cells], alpha: float) -> _Limit:
    """Return the limit of an e-process over several samples, with the cells of each."""
    require_rate(alpha, "alpha")
    if len(draws) != len(cells):
        what = f"one number for each of {len(cells)} distributions"
        raise InvalidInputError(f"draws: expected {what}, got {len(draws)}")
    require_draws(sum(draws))
    cells = [cell for n, cell in zip(draws, cells, strict=True) if n]
    drawn = [require_draws(n) for n in draws if n]
    freedom = sum(len(c) - 1 for c in cells)
    if freedom == 0:
        return _Limit(sum(drawn), 0, 0.0)
    informative = sum(n for n, c in zip(drawn, cells, strict=True) if len(c) > 1)
    threshold = _statistic_reaching(alpha if len(draws) == 1 else alpha / 2, drawn, cells)
    return _Limit(informative, freedom, threshold)


def noncentral_threshold(alpha: float, freedom: int, noncentrality: float) -> float:
    """Return what a (non-central) chi-square variable exceeds with probability ``alpha``."""
    if noncentrality > LARGEST_NONCENTRALITY:
        return math.inf
    if not noncentrality:  # without scipy.stats, which takes long to import
        return float(scipy.special.chdtri(freedom, alpha))
    return float(scipy.stats.ncx2.isf(alpha, freedom, noncentrality))


def noncentral_tail(statistic: float, freedom: int, noncentrality: float) -> float:
    """Return the chance that a (non-central) chi-square variable exceeds ``statistic``."""
    if noncentrality > LARGEST_NONCENTRALITY:
        return 1.0
    if not noncentrality:
        return float(scipy.special.chdtrc(freedom, statistic))
    return float(scipy.stats.ncx2.sf(statistic, freedom, noncentrality))


@lru_cache(maxsize=1024)
def _noncentrality_found(threshold: float, freedom: int, miss: float) -> float:
    """Non-centrality at which a chi-square variable stays below ``threshold`` with probability ``miss``."""
    # Cached: a root search over a special function, and thousands of tests of one size ask the same.
    if scipy.special.chdtr(freedom, threshold) <= miss:
        return 0.0
    return float(scipy.special.chndtrinc(threshold, freedom, miss))


def _statistic_reaching(alpha: float, draws: Sequence[int], cells: Sequence[Cells]) -> float:
    """Pearson statistic, summed over the samples, at which the e-process's limit reaches 1 / alpha."""
    weight, price = _limit_of_log_e(draws, cells)
    needed = math.log(len(DEFECT_SIZES)) - math.log(alpha)
    # Where the best prior alone reaches it; the sum is convex, so that Newton's steps go down to the root.
    statistic = float(((price + needed) / weight).min())
    for _ in range(_NEWTON_STEPS):
        logs = weight * statistic - price
        total = float(np.logaddexp.reduce(logs))
        step = (total - needed) / float(np.exp(logs - total) @ weight)
        statistic -= step
        if step <= 1e-12 * statistic:
            break
    return statistic


def _limit_of_log_e(draws: Sequence[int], cells: Sequence[Cells]) -> tuple[Floats, Floats]:
    """Weight and price, [J] each: log e of a prior is weight * X^2 - price in the limit of many draws."""
    weights, prices = [], []
    for n, cell in zip(draws, cells, strict=True):
        if len(cell) > 1:
            a = concentrations(len(cell))
            weights.append(0.5 * n / (n + a))
            prices.append(0.5 * (len(cell) - 1) * np.log1p(n / a))
    return np.min(weights, axis=0), np.sum(prices, axis=0)


_Kept: TypeAlias = tuple[bytes, tuple[int, ...]]


def _kept(numbers: npt.ArrayLike, name: str = "probabilities") -> _Kept:
    """Return numbers as what a cache can compare."""
    array = require_numbers(numbers, name)
    return array.tobytes(), array.shape


def _numbers(kept: _Kept) -> Floats:
    return np.frombuffer(kept[0]).reshape(kept[1])


# Cached: a search takes milliseconds, and each turn and check of an audit asks the same of the same laws.


@lru_cache(maxsize=64)
def _draws_needed_by_g(tv: float, law: _Kept, alpha: float, miss: float, slack: _Kept) -> int:
    chances, allowed = _numbers(law), _numbers(slack)
    return _draws_needed(tv, miss, lambda draws: _limit_of_g(draws, chances, alpha, allowed))


@lru_cache(maxsize=64)
def _draws_needed_by_joint_e_process(tv: float, laws: tuple[_Kept, ...], alpha: float, miss: float) -> int:
    cells = [support_cells(_numbers(law)) for law in laws]
    return _draws_needed(tv, miss, lambda draws: _limit_of_joint([draws] * len(cells), cells, alpha))


def _draws_needed(tv: float, miss: float, limit_of: Callable[[int], _Limit]) -> int:
    """Bisect for the number of draws from which on a test finds a total variation of ``tv``."""
    if not (is_real(tv) and 0 < tv <= 1):
        raise InvalidInputError(f"tv: expected a total variation in (0, 1], got {tv!r}")
    enough = 1
    while limit_of(enough).smallest_tv(miss) > tv:
        enough *= 2
        if enough > MOST_DRAWS:
            raise InvalidInputError(f"tv: {tv!r} is too small to be detected with {MOST_DRAWS:,} samples")
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if limit_of(middle).smallest_tv(miss) > tv:
            too_few = middle
        else:
            enough = middle
    return enough
