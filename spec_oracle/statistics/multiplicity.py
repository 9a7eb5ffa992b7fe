"""Many tests at once: Holm's adjustment of p-values."""

import numpy as np
import numpy.typing as npt

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics.validation import FloatArray, require_numbers


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return Holm-adjusted p-values, [m], in the order given.

    Rejecting wherever the adjusted value is at most alpha raises any false alarm among the m tests with
    probability at most alpha, however the tests depend on each other (Holm, Scand. J. Statist. 6, 1979):
    the i-th smallest of them, counted from 0, is multiplied by m - i, then made non-decreasing.

    Raises `InvalidInputError` unless ``p_values`` is one axis of numbers in [0, 1].

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = require_numbers(p_values, "p_values")
    if given.ndim != 1:
        raise InvalidInputError(f"p_values: expected shape [m], got {given.shape}")
    bad = np.flatnonzero(~((given >= 0) & (given <= 1)))
    if bad.size:
        raise InvalidInputError(f"p_values[{bad[0]}]: expected a number in [0, 1], got {given[bad[0]]}")
    order = np.argsort(given, kind="stable")
    multiplied = given[order] * np.arange(given.size, 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(multiplied), 1)
    return adjusted
