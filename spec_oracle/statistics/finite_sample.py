"""Tail bounds that hold for every number of draws, every law and every level: no limit theorem in sight."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw, xlogy

from spec_oracle.statistics.validation import FloatArray


def divergence_tail(divergence: float, num_cells: int) -> float:
    """Bound on P(n KL(observed || law) >= ``divergence``), nats, under the law.

    exp(-x) (e x / (V - 1))^(V - 1) for x >= V - 1, else the trivial 1 (Agrawal, arXiv 1904.02291, theorem
    I.2; IEEE Trans. Inf. Theory 66, 2020). With a single cell the divergence is always 0.
    """
    freedom = num_cells - 1
    if divergence <= freedom:
        return 1.0
    if freedom == 0:
        return 0.0
    return math.exp(-divergence + freedom * (1 + math.log(divergence / freedom)))


def divergence_threshold(alpha: float, num_cells: int) -> float:
    """Smallest n KL, nats, whose `divergence_tail` is at most ``alpha``; needs two cells or more.

    With y = x / (V - 1) the equation reads y exp(-y) = alpha^(1 / (V - 1)) / e; the root above 1 is on the
    lower branch of Lambert's W.
    """
    freedom = num_cells - 1
    level = math.exp(math.log(alpha) / freedom - 1)
    return -freedom * float(lambertw(-level, k=-1).real)


def total_variation_tail(total_variation: float, draws: int, num_outcomes: int) -> float:
    """Bound on P(TV(observed, law) >= ``total_variation``) under the law: (2^V - 2) exp(-2 n d^2), or 1.

    TV is the largest of p(S) - p'(S) over the 2^V - 2 sets of outcomes that are neither empty nor full, and
    Hoeffding bounds each; known as the Bretagnolle-Huber-Carol inequality (van der Vaart & Wellner, 1996,
    proposition A.6.6). With one outcome TV is always 0.
    """
    if num_outcomes == 1:
        return 1.0
    return math.exp(min(0.0, _log_subsets(num_outcomes) - 2 * draws * total_variation**2))


def total_variation_radius(alpha: float, draws: int, num_outcomes: int) -> float:
    """Smallest TV whose `total_variation_tail` is at most ``alpha``; 0 with a single outcome."""
    if num_outcomes == 1:
        return 0.0
    return math.sqrt((_log_subsets(num_outcomes) - math.log(alpha)) / (2 * draws))


def frequency_shortfall(miss: float, draws: int) -> float:
    """How far the frequency of one set of outcomes falls below its probability, but for a chance ``miss``.

    Hoeffding: P(observed(S) <= p(S) - t) <= exp(-2 n t^2).
    """
    return math.sqrt(-math.log(miss) / (2 * draws))


def scaled_divergence(counts: npt.NDArray[np.int64], probabilities: FloatArray) -> float:
    """N KL(observed || law) in nats, from counts int [C] and positive probabilities [C]."""
    return max(0.0, float(xlogy(counts, counts / (counts.sum() * probabilities)).sum()))


def _log_subsets(num_outcomes: int) -> float:
    """log(2^V - 2), without overflow."""
    return num_outcomes * math.log(2) + math.log1p(-(2.0 ** (1 - num_outcomes)))
