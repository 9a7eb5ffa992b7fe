"""Tests of independence: exact where outcomes can be enumerated, and as powerful as they say."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from spec_oracle.statistics.independence import (
    _missed,
    _needed,
    coincidence_bound,
    coincidence_p_value,
    coincidences,
    coupling_found_by_coincidences,
    coupling_found_by_signs,
    fair_coin_p_values,
    fair_signs,
    lagged_products,
)

NEVER = 1e-6
"""Chance that a test of this module fails although nothing is wrong."""

PAIR = np.array([[3, 1, 0, 2, 2], [0, 1, 3, 1, 0]]), np.array([[1, 1, 2, 2, 0], [2, 0, 3, 0, 1]])
"""Outcomes of two rows, twice; some tie."""

LAW = np.array([0.1, 0.2, 0.3, 0.4])


def swapped(first, second):
    """Yield what is as likely if both halves are independent draws: every pair of places in either order."""
    for bits in itertools.product((False, True), repeat=first.size):
        swap = np.array(bits).reshape(first.shape)
        yield np.where(swap, second, first), np.where(swap, first, second)


def by_loops(signs, later_from, rows, columns):
    """Return the sum of products at one distance, and how many are not 0."""
    height, width = signs.shape
    products = [
        int(signs[n, c]) * int(signs[n + rows, c + columns])
        for n in range(height - rows)
        for c in range(width)
        if later_from <= c + columns < width and c + columns >= 0
    ]
    return sum(products), sum(product != 0 for product in products)


@pytest.mark.parametrize("later_from", [0, 3])
def test_all_distances_are_counted(later_from):
    signs = np.random.default_rng(1).integers(-1, 2, size=(4, 6)).astype(np.int8)
    sums, edges = lagged_products(signs, later_from)
    for rows, columns in itertools.product(range(4), range(-5, 6)):
        assert (sums[rows, columns], edges[rows, columns]) == by_loops(signs, later_from, rows, columns)


def test_columns_alone_are_counted_at_once():
    signs = np.random.default_rng(2).integers(-1, 2, size=(7, 3)).astype(np.int8)
    together = lagged_products(signs.T[..., None])
    for column in range(3):
        alone = lagged_products(signs[:, [column]])
        assert all(np.array_equal(one[column], other) for one, other in zip(together, alone, strict=True))


def test_agreements_at_every_distance_are_binomial():
    """Over all orders of the pairs, which are equally likely, by enumeration."""
    found = [lagged_products(fair_signs(*halves)) for halves in swapped(*PAIR)]
    edges = found[0][1]
    for place in np.argwhere(edges > 0):
        if place.any():  # but for the distance of a place to itself
            m = int(edges[tuple(place)])
            counts = np.bincount([(m + int(sums[tuple(place)])) // 2 for sums, _ in found], minlength=m + 1)
            assert counts / len(found) == pytest.approx(stats.binom.pmf(np.arange(m + 1), m, 0.5), abs=1e-12)


def test_p_values_of_fair_coins_are_those_of_scipy():
    for m, heads in ((0, 0), (1, 1), (10, 9), (300, 250)):
        expected = stats.binomtest(heads, m).pvalue if m else 1.0
        (found,) = fair_coin_p_values(np.array([2 * heads - m]), np.array([m]))
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("values", [3, 50])
def test_coincidences_are_counted_and_bounded(values):
    outcomes = np.random.default_rng(3).integers(values, size=(200, 5))
    equal = coincidences(outcomes)
    for one, other in itertools.combinations(range(5), 2):
        assert equal[one, other] == equal[other, one] == (outcomes[:, one] == outcomes[:, other]).sum()
    assert not equal.diagonal().any()
    bound = coincidence_bound(outcomes, 1e-6)
    pairs = outcomes[::2] == np.roll(outcomes[1::2], 1, axis=1)
    assert stats.binom.cdf(pairs.sum(), pairs.size, bound) == pytest.approx(1e-6, rel=1e-6)
    assert coincidence_p_value(0, 10, 0.3) == 1
    assert coincidence_p_value(7, 10, 0.3) == pytest.approx(stats.binom.sf(6, 10, 0.3))


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_bound_of_what_always_coincides_is_one(outcome):
    assert coincidence_bound(np.full((4, 2), outcome), 1e-6) == 1


def copied(rng, shape, distance, coupling):
    """Draw outcomes of which each is, with this probability, that of the column ``distance`` before."""
    outcomes = rng.choice(4, p=LAW, size=shape)
    for column in range(distance, shape[1]):
        takes = rng.random(shape[0]) < coupling
        outcomes[takes, column] = outcomes[takes, column - distance]
    return outcomes


RUNS, ALPHA = 60, 1e-9
MOST_MISSES = stats.binom.isf(NEVER, RUNS, 1e-3)


def test_a_coupling_at_a_distance_is_found_as_often_as_said():
    """Power 0.999, by simulation; a coupling a third as large is missed more often."""
    rng, half, columns, distance = np.random.default_rng(4), 40, 33, 5

    def misses(coupling):
        missed = 0
        for _ in range(RUNS):
            halves = np.split(copied(rng, (2 * half, columns), distance, coupling), 2)
            sums, edges = lagged_products(fair_signs(*halves))
            missed += fair_coin_p_values(sums, edges)[0, distance] > ALPHA
        return missed

    outcomes = rng.choice(4, p=LAW, size=(2 * half, columns))
    coupling = coupling_found_by_signs(half * (columns - distance), outcomes, alpha=ALPHA)
    assert misses(coupling) <= MOST_MISSES < misses(coupling / 3)


def test_a_coupling_of_two_columns_is_found_as_often_as_said():
    rng, rows, columns = np.random.default_rng(5), 300, 12

    def misses(coupling):
        missed = 0
        for _ in range(RUNS):
            outcomes = copied(rng, (rows, columns), columns - 1, coupling)
            equal = int(coincidences(outcomes)[0, columns - 1])
            missed += coincidence_p_value(equal, rows, coincidence_bound(outcomes, ALPHA)) > ALPHA
        return missed

    coupling = coupling_found_by_coincidences(rows, copied(rng, (rows, columns), 1, 0), alpha=ALPHA)
    assert misses(coupling) <= MOST_MISSES < misses(coupling / 3)


def test_too_little_finds_nothing():
    outcomes = np.arange(8).reshape(2, 4)
    assert coupling_found_by_signs(3, outcomes, alpha=ALPHA) == math.inf
    assert coupling_found_by_coincidences(3, outcomes, alpha=ALPHA) == math.inf
    assert coupling_found_by_signs(300, np.zeros((2, 4), dtype=int), alpha=ALPHA) == math.inf


@pytest.mark.parametrize("chance", [0.5, 0.03, 0.999, 1.0])
@pytest.mark.parametrize("coins", [0, 1, 7, 300, 100_000])
@pytest.mark.parametrize("alpha", [0.05, 1e-6, 1e-9])
def test_the_heads_that_are_needed_and_how_often_they_are_missed_are_those_of_scipy(alpha, coins, chance):
    needed = _needed(alpha, coins, chance)
    assert needed == stats.binom.isf(alpha, coins, chance) + 1
    for other in (0.001, 0.5, 0.9, 1.0):
        expected = stats.binom.cdf(needed - 1, coins, other)
        assert _missed(needed, coins, other) == pytest.approx(expected, rel=1e-9, abs=1e-300)
