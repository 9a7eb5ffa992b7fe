"""How far the sampled law can be from the expected one, in probability mass, at a stated confidence."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spec_oracle.statistics.validation import require_law, require_rate, require_sample


@dataclass(frozen=True)
class TotalVariationInterval:
    """``lower`` <= TV(true law, expected law) <= ``upper``, masses, with probability 1 - ``alpha``."""

    observed: float
    lower: float
    upper: float
    alpha: float


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
    observed = 0.5 * float(np.abs(drawn / drawn.sum() - law).sum())
    radius = total_variation_radius(alpha, int(drawn.sum()), law.size)
    return TotalVariationInterval(observed, max(0.0, observed - radius), min(1.0, observed + radius), alpha)


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
