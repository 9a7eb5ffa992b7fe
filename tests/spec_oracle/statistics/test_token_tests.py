"""Bets on what verification gets wrong stay fair where the target's probabilities are not known exactly."""

import numpy as np
import pytest

from spec_oracle.statistics.token_tests import ACCEPTED, CORRECTED, Bet

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
