"""Whether two samples follow one law, which need not be known."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from spec_oracle.arrays import Integers
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.cells import MIN_EXPECTED
from spec_oracle.statistics.power import DEFAULT_MISS, smallest_detectable_tv_by_homogeneity
from spec_oracle.statistics.validation import require_counts, require_rate


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
    table = _pooled(first, second)
    draws = int(table[0].sum()), int(table[1].sum())
    if table.shape[1] < 2:
        return Homogeneity(1.0, alpha, table.shape[1], draws, np.inf)
    p_value = float(scipy.stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").pvalue)
    tv = smallest_detectable_tv_by_homogeneity(draws, table.shape[1], alpha=alpha, miss=miss)
    return Homogeneity(p_value, alpha, table.shape[1], draws, tv)


def homogeneity_p_value(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the p-value of `homogeneity`."""
    return homogeneity(first, second, alpha=0.5).p_value


def _pooled(first: npt.ArrayLike, second: npt.ArrayLike) -> Integers:
    """Return the table of pooled cells, int [2, C]."""
    size = np.size(first)
    rows = require_counts(first, size, "first"), require_counts(second, size, "second")
    if rows[1].ndim != 1:
        raise InvalidInputError(f"second: expected shape [{size}], got {rows[1].shape}")
    table = np.stack(rows)
    total = table.sum(axis=0)
    needed = MIN_EXPECTED * table.sum() / max(int(table.sum(axis=1).min()), 1)
    cells: list[Integers] = []
    pool = np.zeros(2, dtype=np.int64)
    for outcome in np.argsort(total, kind="stable"):
        pool = pool + table[:, outcome]
        if pool.sum() >= needed:
            cells.append(pool)
            pool = np.zeros(2, dtype=np.int64)
    if not cells:
        return pool[:, None]
    cells[-1] = cells[-1] + pool
    return np.stack(cells, axis=1)
