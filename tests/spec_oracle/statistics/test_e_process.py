"""The e-process over time: null runs rarely alarm, whatever the stopping rule; several samples add up."""

import numpy as np
import pytest
from scipy.stats import binom

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import EProcess, goodness_of_fit_by_e_process, log_e_value
from spec_oracle.statistics.e_process import (
    TABLE_DRAWS,
    log_e_values_by_size,
    log_e_values_of_equal_cells,
)
from tests.strategies import at_night

LAW = np.array([0.4, 0.3, 0.2, 0.07, 0.03])


@pytest.mark.parametrize("runs", [250, *at_night(1000)])
def test_null_runs_cross_one_over_alpha_in_no_more_than_alpha_of_cases(runs):
    """Each run is looked at over 100 times, at ever longer intervals. False alarm: 1e-9."""
    looks = np.unique(np.geomspace(1, 20_000, 150).astype(int))
    increments = np.diff(looks, prepend=0)
    counts = (
        np.random.default_rng(0).multinomial(increments[:, None], LAW, size=(looks.size, runs)).cumsum(axis=0)
    )
    largest = log_e_value(counts, LAW).max(axis=0)
    for alpha in (0.2, 0.05, 0.01):
        assert (largest >= -np.log(alpha)).sum() <= binom.isf(3e-10, runs, alpha)


def test_evidence_does_not_depend_on_how_draws_are_batched():
    first, second = np.array([4, 1, 0, 3, 0]), np.array([0, 2, 2, 0, 1])
    one_by_one = EProcess.against([LAW]).observe(first).observe(second)
    at_once = EProcess.against([LAW]).observe(first + second)
    assert one_by_one.log_e == at_once.log_e == pytest.approx(float(log_e_value(first + second, LAW)))
    assert one_by_one.draws == 13


@pytest.mark.parametrize("draws", [0, 30, TABLE_DRAWS - 1, TABLE_DRAWS])
def test_evidence_of_equal_cells_is_read_from_a_table(draws):
    counts = np.random.default_rng(1).multinomial([draws, draws // 2, 0], np.full(11, 1 / 11))
    expected = log_e_values_by_size(counts, np.full(11, 1 / 11))
    np.testing.assert_allclose(log_e_values_of_equal_cells(counts), expected, rtol=1e-9, atol=1e-9)


def test_the_p_value_remembers_the_strongest_evidence():
    process = EProcess.against([LAW]).observe([0, 0, 0, 0, 30])
    strongest = process.p_value
    assert strongest < 1e-9
    for _ in range(50):
        process = process.observe((LAW * 10_000).astype(int))
    assert process.p_value == strongest
    assert process.log_e < -np.log(strongest)


def test_the_product_of_samples_has_expectation_one():
    # All pairs of outcomes of two samples with one and two draws.
    laws = [np.array([0.3, 0.7]), LAW]
    start = EProcess.against(laws)
    expectation = 0.0
    for i, p in enumerate(laws[0]):
        for j, q in enumerate(laws[1]):
            for k, r in enumerate(laws[1]):
                seen = start.observe(np.eye(2, dtype=int)[i], 0).observe(
                    np.eye(5, dtype=int)[[j, k]].sum(axis=0), 1
                )
                expectation += p * q * r * np.exp(seen.log_e)
    assert expectation == pytest.approx(1, abs=1e-12)


def test_a_right_sample_costs_a_wrong_one_little():
    wrong = (np.array([0.3, 0.4, 0.2, 0.07, 0.03]) * 1000).astype(int)
    alone = EProcess.against([LAW]).observe(wrong)
    with_a_right_one = EProcess.against([LAW, LAW]).observe(wrong, 0).observe((LAW * 1000).astype(int), 1)
    assert 0.5 * alone.log_e < with_a_right_one.log_e < alone.log_e


def test_right_samples_take_no_evidence_from_a_wrong_one():
    """A wrong sample among 20, all drawn often: the product alone would see nothing."""
    wrong = (np.array([0.33, 0.37, 0.2, 0.07, 0.03]) * 10_000).astype(int)
    alone = EProcess.against([LAW]).observe(wrong)
    process = EProcess.against([LAW] * 20).observe(wrong)
    for sample in range(1, 20):
        process = process.observe((LAW * 10_000).astype(int), sample)
    assert process.log_e == pytest.approx(alone.log_e - np.log(2 * 20))
    assert process.log_e_by_sample.argmax() == 0
    assert process.log_e_by_size.sum(axis=0).max() < 0.5 * alone.log_e


def test_off_support_draws_are_named_with_their_sample():
    process = EProcess.against([[1.0, 0.0], [0.5, 0.5]]).observe([3, 2], 0).observe([3, 3], 1)
    result = goodness_of_fit_by_e_process(process, alpha=0.01)
    assert result.off_support == ((0, 1),)
    assert not result.passed


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match="laws"):
        EProcess.against([])
    with pytest.raises(InvalidInputError, match=r"laws\[1\]\[0\].*-1"):
        EProcess.against([[1.0], [-1.0, 2.0]])
    with pytest.raises(InvalidInputError, match=r"sample.*below 1, got 1"):
        EProcess.against([[0.5, 0.5]]).observe([1, 1], 1)
    with pytest.raises(InvalidInputError, match=r"new_counts\[0\]"):
        EProcess.against([[0.5, 0.5]]).observe([-1, 1])
    with pytest.raises(InvalidInputError, match="at least one draw"):
        goodness_of_fit_by_e_process(EProcess.against([[0.5, 0.5]]), alpha=0.01)


def test_slack_pays_for_every_law_within_it():
    """The e-value against all of them is at most that against any: numerator over *its* likelihood."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        slack = rng.uniform(0, 0.2, LAW.size)
        other = LAW * np.exp(slack * rng.uniform(-1, 1, LAW.size))
        other[:2] *= (1 - other[2:].sum()) / other[:2].sum()
        within = np.all(abs(np.log(other / LAW)) <= slack)
        counts = rng.multinomial(300, other)
        against = log_e_value(counts, LAW) - counts @ np.log(other / LAW)
        assert not within or log_e_value(counts, LAW, slack) <= against + 1e-9
