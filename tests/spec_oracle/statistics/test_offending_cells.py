"""Naming the guilty: Holm's adjustment and exact binomial intervals."""

import numpy as np
import pytest
from scipy.stats import binomtest

from spec_oracle.statistics import offending_cells
from spec_oracle.statistics.intervals import holm


def testholm_by_hand():
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm(np.array([0.9, 0.5])), [1, 1])
    assert holm(np.array([0.2])).tolist() == [0.2]


def test_the_most_certain_comes_first_and_innocent_outcomes_are_not_named():
    law = [0.0, 0.25, 0.25, 0.25, 0.25]
    found = offending_cells([1, 2450, 2200, 2349, 3000], law, alpha=1e-6)
    assert [cell.outcome for cell in found] == [0, 4, 2]
    assert found[0].p_value == 0
    for cell in found:
        assert not cell.lower <= cell.expected_probability <= cell.upper
        assert cell.lower <= cell.count / 10_000 <= cell.upper


def test_intervals_and_p_values_agree_with_scipy():
    counts, law = np.array([0, 200, 20]), [0.2, 0.3, 0.5]
    found = {cell.outcome: cell for cell in offending_cells(counts, law, alpha=0.03)}
    assert set(found) == {0, 1, 2}
    for outcome, cell in found.items():
        interval = binomtest(int(counts[outcome]), 220).proportion_ci(confidence_level=0.99)
        assert (cell.lower, cell.upper) == pytest.approx((interval.low, interval.high))
    assert found[0].p_value == pytest.approx(2 * 0.8**220)


def test_a_single_outcome_is_never_to_blame():
    assert offending_cells([7], [1.0], alpha=0.01) == ()
