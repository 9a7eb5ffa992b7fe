"""Polarity and calibration: a right law stands, a wrong law falls, and p-values mean what they say."""

import math

import numpy as np
import pytest
from scipy.stats import binom, kstest

from spec_oracle import statistics
from spec_oracle.statistics import (
    EProcess,
    goodness_of_fit_by_e_process,
    goodness_of_fit_by_g,
    pooled_cells,
    total_variation_at_least,
)
from spec_oracle.statistics.goodness_of_fit import _williams_g
from tests.strategies import at_night

LAW = np.array([0.0, 0.3, 0.02, 0.28, 0.2, 0.2])
WRONG = np.array([0.0, 0.25, 0.02, 0.33, 0.2, 0.2])
ALPHA = 1e-9
DRAWS = 200_000
TESTS = ["g", "e_process"]


def judge(test, counts, law, **rates):
    if test == "e_process":
        return goodness_of_fit_by_e_process(EProcess.against([law]).observe(counts), **rates)
    return goodness_of_fit_by_g(counts, law, **rates)


@pytest.mark.parametrize("test", TESTS)
def test_a_right_law_passes(test):
    """False alarm: 2e-9 at most."""
    counts = np.random.default_rng(0).multinomial(DRAWS, LAW)
    assert judge(test, counts, LAW, alpha=ALPHA).passed


@pytest.mark.parametrize("test", TESTS)
def test_a_wrong_law_falls(test):
    """Miss: under 1e-9; the test detects a TV of 0.05 with a chance of 1e-9 of missing it."""
    counts = np.random.default_rng(0).multinomial(DRAWS, WRONG)
    result = judge(test, counts, LAW, alpha=ALPHA, miss=1e-9)
    assert result.smallest_detectable_tv < 0.05
    assert not result.passed
    assert f"p-value {result.p_value:.3g} <= alpha" in str(result)


@pytest.mark.parametrize("test", TESTS)
def test_one_draw_off_the_support_is_a_proof(test):
    counts = np.array([1, 30, 2, 28, 20, 20])
    result = judge(test, counts, LAW, alpha=ALPHA)
    assert (result.p_value, result.statistic, result.passed) == (0, math.inf, False)
    assert result.off_support == ((0, 0),)
    assert not judge(test, [5, 0, 0, 0, 0, 0], LAW, alpha=ALPHA).passed


@pytest.mark.parametrize("test", TESTS)
def test_a_law_with_one_outcome(test):
    assert judge(test, [50, 0], [1.0, 0.0], alpha=ALPHA).passed
    assert not judge(test, [50, 1], [1.0, 0.0], alpha=ALPHA).passed


def test_results_state_what_the_power_functions_state():
    result = goodness_of_fit_by_g((LAW * DRAWS).astype(int), LAW, alpha=ALPHA, miss=1e-2)
    stated = statistics.smallest_detectable_tv_by_g(DRAWS, LAW, alpha=ALPHA, miss=1e-2)
    assert result.smallest_detectable_tv == stated
    assert (result.draws, result.degrees_of_freedom, result.alpha, result.miss) == (DRAWS, 4, ALPHA, 1e-2)


def test_p_values_of_right_laws_are_uniform():
    """Over 2,000 random laws. False alarm: 1e-9; the limit law itself is off by far less than KS can see."""
    rng = np.random.default_rng(1)
    p_values = []
    for law in rng.dirichlet(np.full(12, 1.0), size=2000):
        cells = pooled_cells(law, 20_000)
        p_values.append(
            _williams_g(cells.tally(rng.multinomial(20_000, law)), cells.probabilities, allowed=0)[1]
        )
    assert kstest(p_values, "uniform").pvalue > 1e-9


def test_p_values_stay_uniform_with_many_cells_of_50_draws():
    """2,000 equal outcomes, where G needs its correction. False alarm: 1e-9."""
    law = np.full(2000, 1 / 2000)
    samples = np.random.default_rng(2).multinomial(100_000, law, size=1000)
    assert kstest([_williams_g(counts, law, allowed=0)[1] for counts in samples], "uniform").pvalue > 1e-9


@pytest.mark.parametrize("alpha", [0.5, 1e-2])
def test_the_least_total_variation_is_one_of_wrong_laws_too(alpha):
    """False alarm: 1e-9; the bound is above the truth with probability alpha at most."""
    truth = np.abs(LAW - WRONG).sum() / 2
    samples = np.random.default_rng(3).multinomial(2_000, WRONG, size=1000)
    misses = sum(total_variation_at_least(counts, LAW, alpha=alpha) > truth for counts in samples)
    assert misses <= binom.isf(1e-9, 1000, alpha)
    assert total_variation_at_least([0, 0, 0, 0, 0, 9], [0.25, 0.25, 0.25, 0.25, 0, 0], alpha=alpha) < 1


@pytest.mark.parametrize("runs", [400, *at_night(2000)])
def test_slack_holds_the_error_rate_and_is_paid_for_in_power(runs):
    """A law at the edge of the slack fails within alpha; one the stated distance away is found.

    A false alarm has the chance 1e-9, and with a miss of 1e-3 a run so many misses have the chance 1e-7.
    """
    law, slack, draws, alpha = np.full(6, 1 / 6), 0.02, 20_000, 0.01
    sign = np.array([1, -1, 1, -1, 1, -1])
    rng = np.random.default_rng(0)

    def failures(true):
        counts = rng.multinomial(draws, true, runs)
        fits = [goodness_of_fit_by_g(row, law, alpha=alpha, slack=slack) for row in counts]
        return sum(not fit.passed for fit in fits)

    edge = law * np.exp(slack * sign)
    assert failures(edge / edge.sum()) <= binom.isf(1e-9, runs, alpha)
    tv = statistics.smallest_detectable_tv_by_g(draws, law, alpha=alpha, slack=slack)
    assert tv > statistics.smallest_detectable_tv_by_g(draws, law, alpha=alpha)
    assert failures(law + tv / 3 * sign) >= runs - binom.isf(1e-7, runs, 1e-3)
