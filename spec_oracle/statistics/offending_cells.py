"""Which outcomes are to blame: an exact binomial test for each, adjusted for looking at all of them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, binom

from spec_oracle.statistics.validation import FloatArray, IntArray, require_law, require_rate, require_sample


@dataclass(frozen=True)
class OffendingCell:
    """An outcome that is drawn too often or too rarely.

    ``lower`` and ``upper`` bound its true probability (Clopper-Pearson); over all outcomes of the law at once
    such intervals miss with probability alpha at most. ``p_value`` is adjusted for all outcomes (Holm).
    """

    outcome: int
    count: int
    expected_probability: float
    observed_frequency: float
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
    p_values = _holm(_binomial_p_values(drawn, law))
    lower, upper = clopper_pearson(drawn, alpha / law.size)
    draws = int(drawn.sum())
    return tuple(
        OffendingCell(
            outcome=int(i),
            count=int(drawn[i]),
            expected_probability=float(law[i]),
            observed_frequency=float(drawn[i] / draws),
            lower=float(lower[i]),
            upper=float(upper[i]),
            p_value=float(p_values[i]),
        )
        for i in np.argsort(p_values, kind="stable")
        if p_values[i] <= alpha
    )


def _binomial_p_values(counts: IntArray, law: FloatArray) -> FloatArray:
    """Two-sided exact p-values, [V]: twice the smaller tail, both including the count itself."""
    draws = counts.sum()
    too_rare = binom.cdf(counts, draws, law)
    too_often = binom.sf(counts - 1, draws, law)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(too_rare, too_often)), dtype=np.float64)


def _holm(p_values: FloatArray) -> FloatArray:
    """Return p-values [m] adjusted for all m tests (Holm, Scand. J. Statist. 6, 1979).

    The i-th smallest of them, counted from 0, is multiplied by m - i, then made non-decreasing. Rejecting
    where that is at most alpha raises any false alarm with probability at most alpha, however they depend.
    """
    order = np.argsort(p_values, kind="stable")
    multiplied = p_values[order] * np.arange(p_values.size, 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(multiplied), 1)
    return adjusted


def clopper_pearson(counts: IntArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Bounds [V] that each miss with probability ``alpha`` at most (Biometrika 26, 1934)."""
    others = counts.sum() - counts
    lower = np.where(counts == 0, 0.0, beta.ppf(alpha / 2, np.maximum(counts, 1), others + 1))
    upper = np.where(others == 0, 1.0, beta.isf(alpha / 2, counts + 1, np.maximum(others, 1)))
    return lower, upper
