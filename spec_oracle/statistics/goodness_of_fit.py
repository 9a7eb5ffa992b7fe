"""Goodness of fit: do counts follow a law, or two samples one? Each test returns one kind of result.

The G test takes counts int [V] and the law [V] they should follow; the e-process has gathered both. With its
p-value a test states what it could have found: the smallest detectable total variation at its false-alarm
rate ``alpha`` and chance of a ``miss``. A draw of probability zero ends any test: p-value 0, statistic
infinite, the outcomes named. Bad counts, laws and rates raise `InvalidInputError`.

G needs the fewest draws, a number fixed beforehand, and pools cells; the e-process may be looked at while
drawing, takes several samples at once and pools nothing. The limit law of G holds far out. With 50 expected
draws in the rarest cell (the least that pooling allows) the true rate of a nominal 1e-9 is at most twice
that, even with two cells; for Pearson's chi-square it is up to 20 times with two lopsided cells.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from spec_oracle.arrays import Floats, Integers
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.cells import MIN_EXPECTED, joined_cells, pooled_cells, support_cells
from spec_oracle.statistics.e_process import EProcess
from spec_oracle.statistics.power import (
    DEFAULT_MISS,
    noncentral_tail,
    smallest_detectable_tv_by_g,
    smallest_detectable_tv_by_homogeneity,
    smallest_detectable_tv_by_joint_e_process,
)
from spec_oracle.validation import require_counts, require_law, require_rate, require_sample


@dataclass(frozen=True)
class GoodnessOfFit:
    """What one test found and what it could have found.

    ``degrees_of_freedom`` counts tested cells less one, summed over samples. ``smallest_detectable_tv`` is
    probability mass, `math.inf` when no defect was sure to be found. ``off_support`` holds the outcomes of
    probability zero that were drawn, as (sample, outcome); the sample is 0 where there is only one. Of
    several samples, ``detectable_in_one`` is what is found in whichever of them it is, the others right.
    """

    test: str
    statistic: float
    degrees_of_freedom: int
    p_value: float
    alpha: float
    miss: float
    draws: int
    smallest_detectable_tv: float
    off_support: tuple[tuple[int, int], ...]
    detectable_in_one: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the law stands: a right law is rejected with probability ``alpha`` at most."""
        return self.p_value > self.alpha

    def __str__(self) -> str:
        leak = f", sampled outcomes of probability zero {self.off_support[:3]}" if self.off_support else ""
        return (
            f"{self.test}: p-value {self.p_value:.3g} {'>' if self.passed else '<='} alpha {self.alpha:.3g} "
            f"(statistic {self.statistic:.6g}, {self.degrees_of_freedom} degrees of freedom, "
            f"{self.draws:,} samples{leak}; detects {self.detectable or 'no total variation'}"
            f"{f' with power {1 - self.miss:.4g}' * bool(self.detectable)})"
        )

    @property
    def detectable(self) -> str:
        """What the test detects, in words, "" for nothing; of several samples, in all and in any one."""
        tv, in_one = self.smallest_detectable_tv, self.detectable_in_one
        several = "" if in_one is None else " in all distributions at once"
        one = f" or {in_one:.2g} in one alone" if in_one is not None and in_one <= 1 else ""
        return f"a total variation of {tv:.2g}{several}{one}" if tv <= 1 else ""


def goodness_of_fit_by_g(
    counts: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    alpha: float,
    miss: float = DEFAULT_MISS,
    slack: npt.ArrayLike = 0.0,
) -> GoodnessOfFit:
    """G test: 2 sum n_i log(n_i / (n p_i)) over pooled cells against chi-square with C - 1.

    The statistic is divided by Williams' correction (Biometrika 63, 1976), which matters with many cells.
    Every law p' with |log p'_i / p_i| <= ``slack`` (a number, or [V]) counts as right: the statistic is then
    at most non-central chi-square, with n times the largest such chi-square distance.
    """
    law = require_law(probabilities)
    drawn = require_sample(counts, law.size)
    draws = int(drawn.sum())
    tv = smallest_detectable_tv_by_g(draws, law, alpha=alpha, miss=miss, slack=slack)
    cells = pooled_cells(law, draws)
    off_support = cells.off_support(drawn)
    statistic, p_value = math.inf, 0.0
    if not off_support:
        allowed = draws * cells.largest_distance(law, slack)
        statistic, p_value = _williams_g(cells.tally(drawn), cells.probabilities, allowed=allowed)
    return GoodnessOfFit(
        test="G",
        statistic=statistic,
        degrees_of_freedom=len(cells) - 1,
        p_value=p_value,
        alpha=alpha,
        miss=miss,
        draws=draws,
        smallest_detectable_tv=tv,
        off_support=tuple((0, outcome) for outcome in off_support),
    )


def goodness_of_fit_by_e_process(
    process: EProcess, *, alpha: float, miss: float = DEFAULT_MISS
) -> GoodnessOfFit:
    """Judge an e-process as it stands, at any time; the statistic is the largest log e-value so far.

    With several samples ``smallest_detectable_tv`` is the total variation that is found when each sample
    drawn from so far is off by it.
    """
    require_rate(alpha, "alpha")
    if process.draws == 0:
        raise InvalidInputError("process: expected at least one draw, got 0")
    cells = [support_cells(law) for law in process.laws]
    draws = [int(counts.sum()) for counts in process.counts]
    tv = smallest_detectable_tv_by_joint_e_process(draws, process.laws, alpha=alpha, miss=miss)
    in_one = None
    if len(draws) > 1:  # the evidence of one sample alone counts 1 / (2 I) of that of all
        part = alpha / (2 * len(draws))
        in_one = max(
            smallest_detectable_tv_by_joint_e_process([n], [law], alpha=part, miss=miss) if n else math.inf
            for n, law in zip(draws, process.laws, strict=True)
        )
    return GoodnessOfFit(
        test="e-process",
        statistic=process.largest_log_e,
        degrees_of_freedom=sum(len(c) - 1 for c in cells),
        p_value=process.p_value,
        alpha=alpha,
        miss=miss,
        draws=process.draws,
        smallest_detectable_tv=tv,
        off_support=tuple((i, out) for i, c in enumerate(cells) for out in c.off_support(process.counts[i])),
        detectable_in_one=in_one,
    )


def _williams_g(counts: Integers, law: Floats, *, allowed: float) -> tuple[float, float]:
    """G over its mean, to first order, relative to chi-square's: 1 + (sum 1/p_i - 1) / (6 n (C - 1))."""
    freedom = law.size - 1
    if freedom == 0:  # nothing left to test but the support
        return 0.0, 1.0
    correction = 1 + (float((1 / law).sum()) - 1) / (6 * float(counts.sum()) * freedom)
    divergence = max(0.0, float(scipy.special.xlogy(counts, counts / (counts.sum() * law)).sum()))
    statistic = 2 * divergence / correction
    return statistic, noncentral_tail(statistic, freedom, allowed)


@dataclass(frozen=True)
class Homogeneity:
    """Whether two samples follow one law; ``smallest_detectable_tv`` of their laws over ``cells`` cells."""

    p_value: float
    alpha: float
    cells: int
    draws: tuple[int, int]
    smallest_detectable_tv: float

    @property
    def passed(self) -> bool:
        """Whether one law may be behind both; false for equal laws with probability ``alpha`` at most."""
        return self.p_value > self.alpha

    def __str__(self) -> str:
        return (
            f"two-sample G: p-value {self.p_value:.3g} {'>' if self.passed else '<='} alpha {self.alpha:.3g} "
            f"({self.draws[0]:,} and {self.draws[1]:,} samples, {self.cells} cells; detects a total "
            f"variation of {self.smallest_detectable_tv:.3g})"
        )


def homogeneity(
    first: npt.ArrayLike, second: npt.ArrayLike, *, alpha: float, miss: float = DEFAULT_MISS
) -> Homogeneity:
    """Compare counts int [V] each by the two-sample G test, rare outcomes pooled.

    2 sum n_ij log(n_ij / e_ij) over the 2 x C table against chi-square with C - 1 degrees of freedom. Cells
    are joined, rarest first, until both rows expect `MIN_EXPECTED` draws: the margins decide, which the test
    conditions on, and among equal sums the order of outcomes, which must not tell the samples apart. One cell
    that is left tells nothing: p-value 1.
    """
    require_rate(alpha, "alpha")
    size = np.size(first)
    rows = require_counts(first, size, "first"), require_counts(second, size, "second")
    if rows[1].ndim != 1:
        raise InvalidInputError(f"second: expected shape [{size}], got {rows[1].shape}")
    draws, total = (int(rows[0].sum()), int(rows[1].sum())), rows[0] + rows[1]
    cells = joined_cells(total, MIN_EXPECTED * total.sum() / max(min(draws), 1))
    if len(cells) < 2:
        return Homogeneity(1.0, alpha, len(cells), draws, np.inf)
    expected = np.outer(draws, cells.probabilities)
    table = np.stack([cells.tally(row) for row in rows])
    statistic = max(0.0, 2 * float(scipy.special.xlogy(table, table / expected).sum()))
    p_value = float(scipy.special.chdtrc(len(cells) - 1, statistic))
    tv = smallest_detectable_tv_by_homogeneity(draws, len(cells), alpha=alpha, miss=miss)
    return Homogeneity(p_value, alpha, len(cells), draws, tv)
