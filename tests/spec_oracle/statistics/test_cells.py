"""Cells, pooling, and the input checks every test shares."""

import numpy as np
import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import goodness_of_fit_by_g, pooled_cells, support_cells

LAW = [0.0, 0.4, 0.001, 0.3, 0.002, 0.297, 0.0]


def test_support_cells_keep_every_possible_outcome_apart():
    cells = support_cells(LAW)
    assert cells.cell_of.tolist() == [-1, 0, 1, 2, 3, 4, -1]
    assert cells.probabilities.tolist() == [0.4, 0.001, 0.3, 0.002, 0.297]
    assert cells.hidden_mass == 0
    counts = np.array([1, 5, 0, 4, 0, 3, 0])
    assert cells.tally(counts).tolist() == [5, 0, 4, 0, 3]
    assert cells.off_support(counts) == (0,)


def test_rare_outcomes_are_joined_until_each_cell_is_large_enough():
    cells = pooled_cells(LAW, draws=1000)
    assert cells.cell_of.tolist() == [-1, 2, 0, 1, 0, 0, -1]
    np.testing.assert_allclose(cells.probabilities, [0.3, 0.3, 0.4])
    assert cells.hidden_mass == pytest.approx(0.3)


def test_the_remainder_joins_the_last_cell():
    cells = pooled_cells([0.3, 0.3, 0.4], draws=100)
    assert cells.cell_of.tolist() == [0, 0, 0]
    cells = pooled_cells([0.5, 0.5], draws=100)
    assert cells.cell_of.tolist() == [0, 1]


@pytest.mark.parametrize("draws", [1, 60, 1_000, 20_000, 10**7])
@pytest.mark.parametrize("size", [1, 2, 17, 400])
def test_cells_partition_the_support_and_are_large_enough(draws, size):
    weights = 1 / np.arange(1, size + 1) ** 2
    law = np.append(weights / weights.sum(), 0)
    cells = pooled_cells(law, draws)
    np.testing.assert_allclose(np.bincount(cells.cell_of[:-1], law[:-1]), cells.probabilities)
    assert len(cells) == 1 or cells.probabilities.min() * draws >= 50 * (1 - 1e-12)
    assert cells.cell_of[-1] == -1


@pytest.mark.parametrize("draws", [500, 5_000, 50_000])
def test_pooling_hides_no_more_than_it_says(draws):
    # Deterministic: the seed only picks laws.
    rng = np.random.default_rng(0)
    for _ in range(200):
        law, other = rng.dirichlet(np.full(40, 0.2), size=2)
        cells = pooled_cells(law, draws)
        merged = np.bincount(cells.cell_of, other, minlength=len(cells))
        gap = np.abs(law - other).sum() / 2
        assert gap <= cells.hidden_mass + np.abs(cells.probabilities - merged).sum() / 2 + 1e-12


@pytest.mark.parametrize(
    ("counts", "law", "message"),
    [
        ([1, 1], [0.5, -0.5], r"probabilities\[1\].*-0.5"),
        ([1, 1], [0.5, np.nan], r"probabilities\[1\].*nan"),
        ([1, 1], [0.5, 0.4], r"probabilities: expected a total of 1.*0.9"),
        ([1, 1], [], r"probabilities: expected shape"),
        ([1, 1], [[0.5, 0.5]], r"probabilities: expected shape"),
        ([1, -1], [0.5, 0.5], r"counts\[1\].*-1"),
        ([1.0, 1.0], [0.5, 0.5], r"counts: expected integers.*float64"),
        ([1, 1, 1], [0.5, 0.5], r"counts: expected a last axis of 2.*\(3,\)"),
        ([[1, 1]], [0.5, 0.5], r"counts: expected shape \[V\]"),
        ([0, 0], [0.5, 0.5], r"counts: expected at least one draw"),
    ],
)
def test_bad_input_is_named(counts, law, message):
    with pytest.raises(InvalidInputError, match=message):
        goodness_of_fit_by_g(counts, law, alpha=0.01)


@pytest.mark.parametrize(
    "rates", [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": np.nan}, {"alpha": 0.1, "miss": 2.0}]
)
def test_bad_rates_are_named(rates):
    with pytest.raises(InvalidInputError, match=r"alpha|miss"):
        goodness_of_fit_by_g([1, 1], [0.5, 0.5], **rates)


@pytest.mark.parametrize("draws", [0, -1, 1.5, np.inf])
def test_bad_numbers_of_draws_are_named(draws):
    with pytest.raises(InvalidInputError, match="draws"):
        pooled_cells([0.5, 0.5], draws)
