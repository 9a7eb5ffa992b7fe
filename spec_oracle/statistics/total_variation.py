"""How far the sampled law can be from the expected one, in probability mass, at a stated confidence."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spec_oracle.statistics.finite_sample import total_variation_radius
from spec_oracle.statistics.validation import FloatArray, IntArray, require_law, require_rate, require_sample


@dataclass(frozen=True)
class TotalVariationInterval:
    """``lower`` <= TV(true law, expected law) <= ``upper``, but for a chance ``alpha``; probability mass."""

    observed: float
    lower: float
    upper: float
    alpha: float


def observed_total_variation(counts: IntArray, law: FloatArray) -> float:
    """TV between the frequencies of counts int [V] and a law [V]: half the sum of absolute differences."""
    return 0.5 * float(np.abs(counts / counts.sum() - law).sum())


def total_variation_interval(
    counts: npt.ArrayLike, probabilities: npt.ArrayLike, *, alpha: float
) -> TotalVariationInterval:
    """Confidence interval for the total variation between the law of the draws and ``probabilities``.

    ``counts`` int [V], ``probabilities`` [V]. The frequencies are within `total_variation_radius` of the true
    law, whatever it is, with probability 1 - alpha; the triangle inequality does the rest.

    >>> found = total_variation_interval([5_200, 4_800], [0.5, 0.5], alpha=1e-6)
    >>> round(found.observed, 3), round(found.lower, 3), round(found.upper, 3)
    (0.02, 0.0, 0.047)
    """
    require_rate(alpha, "alpha")
    law = require_law(probabilities)
    drawn = require_sample(counts, law.size)
    observed = observed_total_variation(drawn, law)
    radius = total_variation_radius(alpha, int(drawn.sum()), law.size)
    return TotalVariationInterval(observed, max(0.0, observed - radius), min(1.0, observed + radius), alpha)
