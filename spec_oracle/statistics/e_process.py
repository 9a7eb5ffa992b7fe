"""The Dirichlet-multinomial e-process: evidence against a law that may be looked at after every draw.

An e-process is non-negative, starts at 1, and has expected value 1 at every stopping time when the law is
right: the chance that it *ever* reaches 1 / alpha is at most alpha (Ville), so a run may stop as soon as it
does. Ours is the likelihood ratio of a Dirichlet mixture of laws against the law under test (Lindon & Malek,
NeurIPS 2022, arXiv 2011.03567), averaged over a ladder of concentrations, one for each size in
`DEFECT_SIZES` (docs/theory.md, "Statistics").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from spec_oracle.arrays import Floats, Integers
from spec_oracle.errors import InvalidInputError
from spec_oracle.validation import is_whole, require_counts, require_law

DEFECT_SIZES = tuple(2.0**-k for k in range(1, 11))
"""Total variations the prior is tuned to, 0.5 down to 0.001. Sizes in between lose little: the number of
draws needed is flat around the best concentration, and each further size costs log(11 / 10) nats."""

STIRLING_FROM = 20.0

TABLE_DRAWS: Final = 4096
"""Ratios of up to so many draws of equally probable outcomes are kept: `log_e_values_of_equal_cells`."""


def concentrations(num_cells: int) -> Floats:
    """Return the Dirichlet concentrations a, [J], one for each of `DEFECT_SIZES`, for a law over C cells.

    Under Dirichlet(a p) cell i has variance p_i (1 - p_i) / (a + 1), so the expected chi-square distance
    sum (p'_i - p_i)^2 / p_i is (C - 1) / (a + 1). The defect of total variation d that is hardest to see has
    chi-square distance 4 d^2 (see `spec_oracle.statistics.power`); matching the two gives
    a = (C - 1) / (4 d^2), up to the 1.
    """
    sizes = np.asarray(DEFECT_SIZES)
    return max(num_cells - 1, 1) / (4 * sizes**2)


def log_e_values_by_size(
    counts: npt.ArrayLike, probabilities: npt.ArrayLike, slack: npt.ArrayLike = 0.0
) -> Floats:
    """Return the log e-value of each prior of the ladder, [..., J], for counts int [..., V] under a law [V].

    The draws, in their order, have probability prod_i (a p_i)(a p_i + 1)...(a p_i + n_i - 1) over
    a (a + 1)...(a + n - 1) under the prior and prod_i p_i^n_i under the law. Divided by its leading power
    each product becomes a `_log_rising_ratio`, and all the powers cancel.
    Infinite as soon as an outcome of probability zero was drawn.

    With ``slack`` [V] or a number, against every law p' with |log p'_i / p_i| <= slack_i at once: an
    e-value against each of them. Its denominator is the likelihood under p', which exceeds that under p by
    sum n_i log(p'_i / p_i) = sum (n_i - n p_i) log(p'_i / p_i) - n KL(p || p'), so that
    sum |n_i - n p_i| slack_i is taken off.
    """
    law = require_law(probabilities)
    drawn = require_counts(counts, law.size)
    inside = np.flatnonzero(law)
    p, n = law[inside], drawn[..., inside]
    a = concentrations(p.size)
    log_e = _log_rising_ratio(n[..., None, :], a[:, None] * p).sum(axis=-1)
    log_e -= _log_rising_ratio(n.sum(axis=-1)[..., None], a)
    log_e -= (np.abs(drawn - drawn.sum(axis=-1, keepdims=True) * law) * slack).sum(axis=-1)[..., None]
    proven_wrong = drawn.sum(axis=-1) > n.sum(axis=-1)
    return np.asarray(np.where(proven_wrong[..., None], np.inf, log_e), dtype=np.float64)


def log_e_values_of_equal_cells(counts: Integers) -> Floats:
    """Return `log_e_values_by_size`, [..., J], of counts int [..., C] under C outcomes of equal probability.

    For many looks at few draws: ratios are read from a table.
    """
    size, draws = counts.shape[-1], counts.sum(axis=-1)
    if draws.max(initial=0) >= TABLE_DRAWS:
        return log_e_values_by_size(counts, np.full(size, 1 / size))
    of_cell, of_all = _tables_of_equal_cells(size)
    found: Floats = of_cell[counts].sum(axis=-2) - of_all[draws]
    return found


@cache
def _tables_of_equal_cells(size: int) -> tuple[Floats, Floats]:
    """Return the `_log_rising_ratio` of each number of draws, [N, J]: of one of the cells, and of all."""
    draws, a = np.arange(TABLE_DRAWS)[:, None], concentrations(size)
    return _log_rising_ratio(draws, a / size), _log_rising_ratio(draws, a)


def log_e_value(counts: npt.ArrayLike, probabilities: npt.ArrayLike, slack: npt.ArrayLike = 0.0) -> Floats:
    """Return the log e-value, [...], of counts int [..., V] against a law [V]: the ladder's average.

    ``slack`` as of `log_e_values_by_size`.
    """
    return _average(log_e_values_by_size(counts, probabilities, slack))


@dataclass(frozen=True, eq=False)
class EProcess:
    """Evidence so far against the claim that each of I independent samples follows its law.

    ``laws`` I arrays [V_i]; ``counts`` I arrays int [V_i]; ``log_e_by_size`` [I, J]; ``largest_log_e``, the
    running maximum of ``log_e`` over all looks. Start with `EProcess.against`; every `observe` returns a new
    process.

    A defect may show in all samples or in one of them only, so half of the bet is on either. The first half
    multiplies the evidence of all laws within each defect size and averages over the sizes afterwards: the
    price of not knowing the size is paid once. The second half averages over the samples: right ones take
    no evidence from a wrong one, as they do in a product, where each costs as much as it was drawn.

    >>> process = EProcess.against([[0.5, 0.5]])
    >>> for _ in range(20):
    ...     process = process.observe([60, 40])
    >>> process.draws, process.p_value < 1e-6
    (2000, True)
    """

    laws: tuple[Floats, ...]
    counts: tuple[Integers, ...]
    log_e_by_size: Floats
    largest_log_e: float

    @classmethod
    def against(cls, laws: Sequence[npt.ArrayLike]) -> "EProcess":
        """Return the process before the first draw; raises `InvalidInputError` without laws."""
        if len(laws) == 0:
            raise InvalidInputError("laws: expected at least one distribution, got none")
        checked = tuple(require_law(law, f"laws[{i}]") for i, law in enumerate(laws))
        counts = tuple(np.zeros(law.size, dtype=np.int64) for law in checked)
        return cls(checked, counts, np.zeros((len(checked), len(DEFECT_SIZES))), 0.0)

    def observe(self, new_counts: npt.ArrayLike, sample: int = 0, slack: npt.ArrayLike = 0.0) -> "EProcess":
        """Return the process after further draws, counts int [V_i], of sample number ``sample``.

        Which sample to draw from next, and how often, may depend on everything seen so far. ``slack`` as of
        `log_e_values_by_size`, the same in all calls for one sample.
        """
        if not (is_whole(sample) and 0 <= sample < len(self.laws)):
            raise InvalidInputError(f"sample: expected an index below {len(self.laws)}, got {sample!r}")
        law = self.laws[sample]
        counts = list(self.counts)
        counts[sample] = counts[sample] + require_counts(new_counts, law.size, "new_counts")
        log_e_by_size = self.log_e_by_size.copy()
        log_e_by_size[sample] = log_e_values_by_size(counts[sample], law, slack)
        after = replace(self, counts=tuple(counts), log_e_by_size=log_e_by_size)
        return replace(after, largest_log_e=max(self.largest_log_e, after.log_e))

    @property
    def log_e_by_sample(self) -> Floats:
        """Log e-value of each sample alone, [I], nats."""
        return _average(self.log_e_by_size)

    @property
    def log_e(self) -> float:
        """Log e-value now, nats."""
        in_all = _average(self.log_e_by_size.sum(axis=0))
        in_one = _average(self.log_e_by_sample)
        return float(_average(np.stack([in_all, in_one])))

    @property
    def p_value(self) -> float:
        """Anytime-valid p-value: 1 over the largest e-value so far; stopping by looking at it is allowed."""
        return math.exp(-self.largest_log_e)

    @property
    def draws(self) -> int:
        """Draws seen, over all samples."""
        return int(sum(counts.sum() for counts in self.counts))


def _log_rising_ratio(n: Integers, x: Floats) -> Floats:
    """Return log of x (x + 1)...(x + n - 1) / x^n elementwise, for n >= 0 and x > 0, arrays that broadcast.

    This is lgamma(n + x) - lgamma(x) - n log x, which cancels badly for large x; there Stirling's series
    lgamma(x) = (x - 1/2) log x - x + const + 1/(12 x) - 1/(360 x^3) + 1/(1260 x^5) - 1/(1680 x^7) is
    exact to rounding, and the difference of its leading terms is (n + x - 1/2) log(1 + n/x) - n.
    """
    counts, over = np.broadcast_arrays(np.asarray(n, dtype=np.float64), x)
    is_large, found = over >= STIRLING_FROM, np.empty(over.shape)
    large, small = over[is_large], over[~is_large]
    n_of_large, n_of_small = counts[is_large], counts[~is_large]
    tails = _stirling_tail(n_of_large + large) - _stirling_tail(large)
    found[is_large] = (n_of_large + large - 0.5) * np.log1p(n_of_large / large) - n_of_large + tails
    gammas = scipy.special.gammaln(n_of_small + small) - scipy.special.gammaln(small)
    found[~is_large] = gammas - n_of_small * np.log(small)
    return found


def _stirling_tail(x: Floats) -> Floats:
    """1/(12 x) - 1/(360 x^3) + 1/(1260 x^5) - 1/(1680 x^7); the next term is below 2e-15 from x = 20 on."""
    y = 1 / x**2
    return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) / x


def _average(log_e: Floats) -> Floats:
    """Log of the mean over the last axis of exponentials."""
    return np.asarray(np.logaddexp.reduce(log_e, axis=-1) - math.log(log_e.shape[-1]), dtype=np.float64)
