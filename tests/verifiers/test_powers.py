"""Powers by products: right in every arithmetic, and the same in any batch."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from verifiers.arrays import power_sum, raised_to

COUNTS = np.array([1, 2, 3, 4, 5, 8, 17, 64])[:, None]


def test_powers_are_powers():
    base = np.random.default_rng(0).random((8, 50))
    assert raised_to(COUNTS)(base) == pytest.approx(base**COUNTS, rel=1e-14)
    assert raised_to(torch.from_numpy(COUNTS))(torch.from_numpy(base)).numpy() == pytest.approx(base**COUNTS)
    assert raised_to(np.array([[0]]))(np.array([[0.0, 3.0]])).tolist() == [[1, 1]]


def test_powers_of_rationals_are_rational():
    base = np.array([[Fraction(2, 3), Fraction(0)]] * 8, dtype=object)
    assert raised_to(COUNTS)(base).tolist() == [
        [Fraction(2, 3) ** n, Fraction(0)] for (n,) in COUNTS.tolist()
    ]
    total = power_sum(base * 0, base, COUNTS)
    assert total.tolist() == [[Fraction(2, 3) ** (n - 1), 0 ** (n - 1)] for (n,) in COUNTS.tolist()]


def test_power_sums_are_quotients_of_differences():
    low, high = np.sort(np.random.default_rng(1).random((2, 8, 50)), axis=0)
    expected = (high**COUNTS - low**COUNTS) / (high - low)
    assert power_sum(low, high, COUNTS) == pytest.approx(expected, rel=1e-10)
    assert power_sum(high, high, COUNTS) == pytest.approx(COUNTS * high ** (COUNTS - 1), rel=1e-13)


@pytest.mark.parametrize(
    "function",
    [lambda base, count: raised_to(count)(base), lambda base, count: power_sum(base / 2, base, count)],
)
def test_a_request_has_the_same_power_alone_and_in_any_batch(function):
    base = np.random.default_rng(2).random((8, 61))
    together = function(base, COUNTS)
    for b in range(8):
        assert np.array_equal(function(base[b : b + 1], COUNTS[b : b + 1])[0], together[b])
        alike = function(base, np.full((8, 1), COUNTS[b, 0]))
        assert np.array_equal(alike[b], together[b])
