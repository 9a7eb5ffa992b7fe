"""Two samples of one law are rarely told apart; two laws as far apart as is stated are."""

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency

from spec_oracle.statistics import homogeneity

LAW = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
DRAWS = 3000, 1200


def found(first, second, runs, alpha):
    rng = np.random.default_rng(0)
    samples = zip(
        rng.multinomial(DRAWS[0], first, runs), rng.multinomial(DRAWS[1], second, runs), strict=True
    )
    return [homogeneity(*pair, alpha=alpha) for pair in samples]


def test_one_law_fails_within_the_error_rate():
    """False alarm: 1e-9 if the limit law holds at these counts."""
    results = found(LAW, LAW, 2000, 0.05)
    assert sum(not result.passed for result in results) <= binom.isf(1e-9, 2000, 0.05)


def test_laws_as_far_apart_as_is_stated_are_found():
    """Each run misses with probability 1e-3: four misses of 400 and more have chance 8e-4, seven 1e-6."""
    tv = found(LAW, LAW, 1, 1e-6)[0].smallest_detectable_tv
    assert 0.05 < tv < 0.15
    apart = LAW + tv / 2 * np.array([-1, 1, -1, 1, 0])
    assert sum(result.passed for result in found(LAW, apart, 400, 1e-6)) < 7


def test_one_cell_detects_nothing():
    result = homogeneity([10, 0], [10, 0], alpha=0.01)
    assert result.passed
    assert result.smallest_detectable_tv == np.inf
    assert "1 cells" in str(result)


@pytest.mark.parametrize("second", [[900, 750, 600, 450, 300], [400, 310, 200, 190, 100]])
def test_the_p_value_is_that_of_scipy(second):
    first = [900, 750, 600, 450, 300]
    expected = chi2_contingency([first, second], correction=False, lambda_="log-likelihood").pvalue
    assert homogeneity(first, second, alpha=0.01).p_value == pytest.approx(expected, rel=1e-9)
