"""Small multinomials, enumerated: the truth that p-values, bounds and e-values are held against.

Nothing here is random, so nothing here can raise a false alarm.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln, xlogy
from scipy.stats import chi2

from spec_oracle.statistics import goodness_of_fit_by_g, offending_cells
from spec_oracle.statistics.e_process import (
    concentrations,
    log_e_value,
    log_e_values_by_size,
)
from spec_oracle.statistics.intervals import total_variation_radius
from tests.strategies import by_day

SMALL = [
    (12, [0.5, 0.5]),
    (40, [0.9, 0.1]),
    (25, [0.2, 0.3, 0.5]),
    (30, [0.02, 0.08, 0.9]),
    (14, [0.25, 0.25, 0.25, 0.25]),
    (9, [0.1, 0.1, 0.2, 0.25, 0.35]),
]

LEAST_POOLED = [
    (100, [0.5, 0.5]),
    (1000, [0.05, 0.95]),
    (500, [0.1, 0.9]),
    (150, [1 / 3, 1 / 3, 1 / 3]),
    (300, [0.2, 0.3, 0.5]),
    (500, [0.1, 0.4, 0.5]),
]
"""Laws and numbers of draws for which pooling leaves every outcome in a cell of its own."""


def all_counts(draws, num_outcomes):
    """All count vectors of a given total, int [M, V]."""
    if num_outcomes == 1:
        return np.array([[draws]])
    blocks = []
    for first in range(draws + 1):
        rest = all_counts(draws - first, num_outcomes - 1)
        blocks.append(np.column_stack([np.full(len(rest), first), rest]))
    return np.concatenate(blocks)


def chances(counts, law):
    """Probability of each count vector, [M]."""
    log = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1) + xlogy(counts, law).sum(axis=1)
    return np.exp(log)


def tails(statistics, weights):
    """Distinct values s of a statistic, descending, and P(statistic >= s); equal to rounding is equal."""
    rounded = np.round(statistics, 9)
    values, index = np.unique(-rounded, return_inverse=True)
    return -values, np.cumsum(np.bincount(index, weights))


def divergences(counts, law):
    draws = counts.sum(axis=1, keepdims=True)
    return np.maximum(0, xlogy(counts, counts / (draws * np.asarray(law))).sum(axis=1))


WORST_INFLATION = 2
"""True rate over nominal, at most; half of it is the lattice's doing."""


def corrected_g(counts, law):
    draws, freedom = counts[0].sum(), len(law) - 1
    return 2 * divergences(counts, law) / (1 + (sum(1 / p for p in law) - 1) / (6 * draws * freedom))


@pytest.mark.parametrize(("draws", "law"), by_day(LEAST_POOLED, LEAST_POOLED[:-1]))
def test_the_limit_law_holds_far_out_where_cells_expect_50_draws(draws, law):
    counts = all_counts(draws, len(law))
    values, tail = tails(corrected_g(counts, law), chances(counts, law))
    nominal = chi2.sf(values, len(law) - 1)
    for alpha in (1e-2, 1e-3, 1e-4, 1e-6, 1e-9):
        assert tail[nominal <= alpha].max(initial=0) <= WORST_INFLATION * alpha


@pytest.mark.parametrize(("draws", "law"), by_day(LEAST_POOLED, LEAST_POOLED[:-1]))
def test_p_values_are_the_limit_laws_of_the_enumerated_statistics(draws, law):
    counts = all_counts(draws, len(law))
    for row in counts[:: len(counts) // 10]:
        g = goodness_of_fit_by_g(row, law, alpha=1e-6)
        assert g.statistic == pytest.approx(corrected_g(row[None], law)[0], abs=1e-9)
        assert g.p_value == pytest.approx(chi2.sf(g.statistic, len(law) - 1), rel=1e-9)


@pytest.mark.parametrize(("draws", "law"), SMALL)
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-3])
def test_the_total_variation_interval_covers_the_truth(draws, law, alpha):
    counts = all_counts(draws, len(law))
    observed = np.abs(counts / draws - np.asarray(law)).sum(axis=1) / 2
    outside = observed > total_variation_radius(alpha, draws, len(law))
    assert chances(counts, law)[outside].sum() <= alpha


@pytest.mark.parametrize(("draws", "law"), SMALL)
def test_the_e_value_has_expectation_one(draws, law):
    counts = all_counts(draws, len(law))
    expectation = chances(counts, law) @ np.exp(log_e_value(counts, law))
    assert expectation == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize(("draws", "law"), SMALL)
def test_the_e_value_is_a_martingale(draws, law):
    counts = all_counts(draws - 1, len(law))
    after_each_outcome = counts[:, None, :] + np.eye(len(law), dtype=np.int64)
    expected_next = np.exp(log_e_value(after_each_outcome, law)) @ np.asarray(law)
    np.testing.assert_allclose(expected_next, np.exp(log_e_value(counts, law)), rtol=1e-11)


def test_e_values_agree_with_rational_arithmetic():
    law = [Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)]
    counts = [3, 1, 2]
    for j, a in enumerate(concentrations(3)):
        concentration = Fraction(float(a))
        exact, seen = Fraction(1), 0
        for p, count in zip(law, counts, strict=True):
            for k in range(count):
                exact *= (k + concentration * p) / (seen + concentration) / p
                seen += 1
        log_e = log_e_values_by_size(counts, [float(p) for p in law])[j]
        assert log_e == pytest.approx(math.log(exact), abs=1e-8)


@pytest.mark.parametrize(("draws", "law"), SMALL[:3])
@pytest.mark.parametrize("alpha", [0.2, 0.01])
def test_a_right_law_has_offending_cells_with_probability_alpha_at_most(draws, law, alpha):
    counts = all_counts(draws, len(law))
    named = [bool(offending_cells(c, law, alpha=alpha)) for c in counts]
    assert chances(counts, law) @ named <= alpha
