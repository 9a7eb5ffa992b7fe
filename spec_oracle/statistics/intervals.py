"""Where the truth lies: a bound of the total variation, and an interval for each outcome that is to blame."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from spec_oracle.arrays import Floats, Integers
from spec_oracle.validation import require_law, require_rate, require_sample


@dataclass(frozen=True)
class OffendingCell:
    """An outcome that is drawn too often or too rarely.

    ``lower`` and ``upper`` bound its true probability (Clopper-Pearson); over all outcomes of the law at once
    such intervals miss with probability alpha at most. ``p_value`` is adjusted for all outcomes (Holm).
    """

    outcome: int
    count: int
    expected_probability: float
    lower: float
    upper: float
    p_value: float


def offending_cells(
    counts: npt.ArrayLike, probabilities: npt.ArrayLike, *, alpha: float
) -> tuple[OffendingCell, ...]:
    """Return the outcomes whose frequency contradicts the law, the most certain first.

    ``counts`` int [V], ``probabilities`` [V]. Under the law any outcome at all is named with probability
    ``alpha`` at most. Drawn outcomes of probability zero have p-value 0 and come first.
    """
    require_rate(alpha, "alpha")
    law = require_law(probabilities)
    drawn = require_sample(counts, law.size)
    draws = int(drawn.sum())
    # Two-sided exact p-values: twice the smaller tail, both including the count itself.
    smaller = np.minimum(
        scipy.stats.binom.cdf(drawn, draws, law), scipy.stats.binom.sf(drawn - 1, draws, law)
    )
    p_values = holm(np.minimum(1.0, 2 * smaller))
    lower, upper = clopper_pearson(drawn, alpha / law.size)
    return tuple(
        OffendingCell(
            outcome=int(i),
            count=int(drawn[i]),
            expected_probability=float(law[i]),
            lower=float(lower[i]),
            upper=float(upper[i]),
            p_value=float(p_values[i]),
        )
        for i in np.argsort(p_values, kind="stable")
        if p_values[i] <= alpha
    )


def holm(p_values: Floats) -> Floats:
    """Return p-values [m] adjusted for all m tests (Holm, Scand. J. Statist. 6, 1979).

    The i-th smallest of them, counted from 0, is multiplied by m - i, then made non-decreasing. Rejecting
    where that is at most alpha raises any false alarm with probability at most alpha, however they depend.
    """
    order = np.argsort(p_values, kind="stable")
    multiplied = p_values[order] * np.arange(p_values.size, 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(multiplied), 1)
    return adjusted


def clopper_pearson(counts: Integers, alpha: float) -> tuple[Floats, Floats]:
    """Bounds [V] that each miss with probability ``alpha`` at most (Biometrika 26, 1934)."""
    others = counts.sum() - counts
    lower = np.where(counts == 0, 0.0, scipy.stats.beta.ppf(alpha / 2, np.maximum(counts, 1), others + 1))
    upper = np.where(others == 0, 1.0, scipy.stats.beta.isf(alpha / 2, counts + 1, np.maximum(others, 1)))
    return lower, upper


def total_variation_at_least(counts: npt.ArrayLike, probabilities: npt.ArrayLike, *, alpha: float) -> float:
    """Return a lower confidence bound of the total variation of the law of the draws from ``probabilities``.

    ``counts`` int [V], ``probabilities`` [V]. The frequencies are within `total_variation_radius` of the true
    law, whatever it is, with probability 1 - alpha; the triangle inequality does the rest.

    >>> round(total_variation_at_least([5_600, 4_400], [0.5, 0.5], alpha=1e-6), 3)
    0.033
    """
    require_rate(alpha, "alpha")
    law = require_law(probabilities)
    drawn = require_sample(counts, law.size)
    observed = 0.5 * float(np.abs(drawn / drawn.sum() - law).sum())
    return max(0.0, observed - total_variation_radius(alpha, int(drawn.sum()), law.size))


def total_variation_radius(alpha: float, draws: int, num_outcomes: int) -> float:
    """TV from the true law that frequencies exceed with probability ``alpha`` at most; 0 for one outcome.

    TV is the largest of p(S) - p'(S) over the 2^V - 2 sets of outcomes that are neither empty nor full, and
    Hoeffding bounds each: P(TV >= d) <= (2^V - 2) exp(-2 n d^2), the Bretagnolle-Huber-Carol inequality (van
    der Vaart & Wellner, 1996, proposition A.6.6).
    """
    if num_outcomes == 1:
        return 0.0
    log_subsets = num_outcomes * math.log(2) + math.log1p(-(2.0 ** (1 - num_outcomes)))  # without overflow
    return math.sqrt((log_subsets - math.log(alpha)) / (2 * draws))
