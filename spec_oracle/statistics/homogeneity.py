"""Whether two samples follow one law, whatever it is."""

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2_contingency

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.cells import MIN_EXPECTED
from spec_oracle.statistics.validation import require_counts


def homogeneity_p_value(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the p-value of the two-sample G test for counts int [V] each, rare outcomes pooled.

    2 sum n_ij log(n_ij / e_ij) over the 2 x C table against chi-square with C - 1 degrees of freedom. Cells
    are joined, rarest first, until both rows expect `MIN_EXPECTED` draws: the margins decide, which the test
    conditions on. One cell that is left tells nothing: p-value 1.
    """
    size = np.size(first)
    rows = require_counts(first, size, "first"), require_counts(second, size, "second")
    if rows[1].ndim != 1:
        raise InvalidInputError(f"second: expected shape [{size}], got {rows[1].shape}")
    table = np.stack(rows)
    total = table.sum(axis=0)
    needed = MIN_EXPECTED * table.sum() / max(int(table.sum(axis=1).min()), 1)
    cells: list[npt.NDArray[np.int64]] = []
    pool = np.zeros(2, dtype=np.int64)
    for outcome in np.argsort(total, kind="stable"):
        pool = pool + table[:, outcome]
        if pool.sum() >= needed:
            cells.append(pool)
            pool = np.zeros(2, dtype=np.int64)
    if cells:
        cells[-1] = cells[-1] + pool
    if len(cells) < 2:
        return 1.0
    return float(chi2_contingency(np.stack(cells, axis=1), correction=False, lambda_="log-likelihood").pvalue)
