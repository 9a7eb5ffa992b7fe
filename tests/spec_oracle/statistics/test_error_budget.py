"""The error budget: fixed, complete, and blind to layout and order."""

import itertools

import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import CHECK_SHARES, DEFAULT_ALPHA, ErrorBudget


def test_shares_hand_out_the_whole_budget_and_no_more():
    assert sum(CHECK_SHARES.values()) == 1
    assert all(share > 0 for share in CHECK_SHARES.values())
    assert list(CHECK_SHARES) == [
        "joint",
        "length",
        "calls",
        "draft-law",
        "streams",
        "batch",
        "bad-input",
        "inputs-kept",
        "scale",
    ]


def test_the_rates_of_all_tests_add_up_to_alpha():
    budget = ErrorBudget()
    total = sum(
        sum(budget.rates_of_tests(check, [f"test {i}" for i in range(n)]).values())
        for n, check in enumerate(CHECK_SHARES, start=1)
    )
    assert total == pytest.approx(DEFAULT_ALPHA, rel=1e-12)


def test_a_rate_depends_on_the_set_of_tests_alone():
    names = ["token::3", "block::1", "token::1", "k_seq::7"]
    expected = ErrorBudget(1e-3).rates_of_tests("calls", names)
    for order in itertools.permutations(names):
        rates = ErrorBudget(1e-3).rates_of_tests("calls", iter(order))
        assert list(rates.items()) == list(expected.items())
    # Two workers that announce all tests and run half of them each use the same rates as one worker.
    assert expected["token::1"] == pytest.approx(1e-3 * 0.2 / 4)


def test_other_checks_do_not_change_a_rate():
    assert ErrorBudget(0.01).rate_of("joint") == pytest.approx(0.003)


def test_retries_and_strangers_have_no_rate():
    budget = ErrorBudget()
    with pytest.raises(InvalidInputError, match="'a' 2 times"):
        budget.rates_of_tests("joint", ["a", "b", "a"])
    with pytest.raises(InvalidInputError, match="at least one"):
        budget.rates_of_tests("joint", [])
    with pytest.raises(InvalidInputError, match=r"check: .* got 'speed'"):
        budget.rate_of("speed")
    with pytest.raises(InvalidInputError, match="alpha"):
        ErrorBudget(0.0)
