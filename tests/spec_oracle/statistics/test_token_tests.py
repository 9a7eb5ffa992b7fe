"""Bets on tokens stay fair where probabilities are not known exactly; no evidence is computed twice."""

import numpy as np
import pytest

from spec_oracle.statistics import token_tests
from spec_oracle.statistics.e_process import concentrations, log_e_values_by_size, log_e_values_of_equal_cells
from spec_oracle.statistics.token_tests import ACCEPTED, CORRECTED, Bet, ByOrder, ByPlace

VOCAB, OFF = 6, 0.1


def means(kind, relative, seed):
    """The mean of each bet on one token whose probabilities are off by `OFF`, in the worst direction."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(VOCAB), 2)
    values = []
    for token in range(VOCAB):
        bet = Bet("p/q", kind, 1.0)
        bet.observe(p[None], q[None], np.array([token]), np.ones(1), np.array([relative]))
        values.append(np.exp(bet.log_e))
    up = np.sign(q - p)
    up -= (p * up).sum()
    right = p * (1 + OFF * up / abs(up).max())
    return right @ np.array(values)


@pytest.mark.parametrize("kind", [ACCEPTED, CORRECTED])
def test_a_bet_is_fair_where_every_ratio_is_off(kind):
    assert max(means(kind, OFF, seed).max() for seed in range(200)) <= 1 + 1e-12


@pytest.mark.parametrize("kind", [ACCEPTED, CORRECTED])
def test_it_would_not_be_without_its_price(kind):
    assert max(means(kind, 0.0, seed).max() for seed in range(200)) > 1.01


def test_groups_of_places_without_tokens_are_not_counted_again(monkeypatch):
    counted = []

    def counting(counts):
        counted.append(len(counts))
        return log_e_values_of_equal_cells(counts)

    monkeypatch.setattr(token_tests, "log_e_values_of_equal_cells", counting)
    test = ByPlace("by p", 256, False, 1.0, np.zeros((256, 3), dtype=np.int64))
    test.observe(np.linspace(0, 0.99, 10), np.arange(10) % 5 + 1, np.zeros(10))
    assert counted == [5]


def test_places_have_the_evidence_of_their_counts_less_the_price_of_doubt():
    rng, doubt = np.random.default_rng(0), 1e-3
    test = ByPlace("by p", 8, False, 1.0, np.zeros((8, 3), dtype=np.int64))
    for places in (np.arange(1, 5), np.arange(1, 30), np.array([3, 3])):
        test.observe(rng.random(len(places)) ** 2, places, np.full(len(places), doubt))
    price = test.counts.sum(axis=1, keepdims=True) * np.log1p(3 * doubt)
    np.testing.assert_allclose(test.log_e, log_e_values_by_size(test.counts, [1 / 3] * 3) - price, atol=1e-12)


def test_each_token_is_bet_on_by_those_before_it_less_the_price_of_its_doubt():
    rng, size = np.random.default_rng(0), 4
    cells, given, doubt = rng.integers(size, size=50), rng.integers(2, size=50), rng.random(50) / 100
    test = ByOrder("by p", "all tokens", 1.0, np.zeros((2, size), dtype=np.int64))
    test.observe(cells[:20], given[:20], doubt[:20])
    test.observe(cells[20:], given[20:], doubt[20:])
    counts, expected, a = np.zeros((2, size)), 0.0, concentrations(size)[:, None]
    for cell, group, off in zip(cells, given, doubt, strict=True):
        ratio = (counts[group] * size + a) / (counts[group].sum() + a)
        expected = expected + np.log(ratio[:, cell]) - np.log1p(off * np.ptp(ratio, axis=1))
        counts[group, cell] += 1
    np.testing.assert_allclose(test.log_e, expected, atol=1e-12)
