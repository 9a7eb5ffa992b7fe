"""Trees without end, runs without end, time limits, and what foreign code raises."""

import math
import pickle
import random
import time

import pytest

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.interception import (
    CannotTraceError,
    TooManyBranchesError,
    enumerate_calls,
    run,
)
from tests.spec_oracle.exact.interception.support import call_law


def rejection_sampling(bound=0.6):
    """Draw a uniform below ``bound`` by throwing away others."""
    while (u := random.random()) > bound:
        pass
    return u < 0.3


def coins_until_tails():
    heads = 0
    while random.random() < 0.5:
        heads += 1
    return heads


def test_rejection_sampling_is_exact():
    assert call_law(rejection_sampling, bool)[True] == pytest.approx(0.5, abs=1e-12)
    assert call_law(lambda: rejection_sampling(0.6006), bool)[True] == pytest.approx(0.3 / 0.6006, abs=1e-12)


def test_the_error_bound_is_the_probability_cut_off():
    law = call_law(coins_until_tails, int)
    missing = 1 - math.fsum(law.values())
    assert 0 < missing < 1e-12
    assert all(abs(chance - 0.5 ** (heads + 1)) <= missing for heads, chance in law.items())


def test_a_tree_too_large_to_cut_raises(monkeypatch):
    def loops():
        return [coins_until_tails() for _ in range(5)]

    with pytest.raises(TooManyBranchesError, match="max_branches"):
        enumerate_calls(loops, max_branches=200)
    monkeypatch.setattr(run, "CUT", 1e-9)
    with pytest.raises(TooManyBranchesError, match="sum to"):
        enumerate_calls(coins_until_tails)


def test_an_endless_run_raises():
    def forever():
        while random.random() < 1:
            pass

    with pytest.raises(TooManyBranchesError, match="in one run"):
        enumerate_calls(forever)


def test_time_is_limited():
    def slow():
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return [random.random() < 0.5 for _ in range(10)]

    with pytest.raises(TooManyBranchesError, match="max_seconds"):
        enumerate_calls(slow, max_seconds=0.1)


@pytest.mark.parametrize("broken", [lambda: math.sin(random.random()), lambda: random.gauss(0, 1)])
def test_code_that_tries_again_after_an_error_does_not_hang(broken):
    def stubborn():
        while True:
            try:
                return broken() < 0.5
            except Exception:  # noqa: BLE001
                continue

    with pytest.raises(CannotTraceError):
        enumerate_calls(stubborn)


def test_an_endless_tree_that_catches_errors_ends():
    def careful():
        count = 0
        while True:
            try:
                if random.random() < 0.5:
                    return count
            except Exception:  # noqa: BLE001
                continue
            count += 1

    assert call_law(careful, int)[2] == pytest.approx(0.125)


class ForeignError(Exception):
    pass


@pytest.mark.parametrize("error", [ForeignError, SystemExit, KeyboardInterrupt])
def test_foreign_errors_go_through(error):
    """An error of the code is not ours: the caller may run the code again on plain draws."""

    def failing():
        if random.random() < 0.5:
            raise error("mine")

    assert not issubclass(error, SpecOracleError)
    with pytest.raises(error, match="mine"):
        enumerate_calls(failing)


def test_an_error_caused_by_tracing_is_reported_as_ours():
    def failing():
        try:
            return math.sqrt(random.random())
        except SpecOracleError as error:
            raise ForeignError from error

    with pytest.raises(CannotTraceError):
        enumerate_calls(failing)


def test_errors_survive_pickling():
    with pytest.raises(CannotTraceError) as caught:
        enumerate_calls(lambda: math.sqrt(random.random()))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.location) == (str(caught.value), caught.value.location)


def test_a_tree_that_is_far_too_large_is_given_up_early():
    runs = []

    def coins():
        runs.append(1)
        return sum(random.random() < 0.5 for _ in range(20))

    with pytest.raises(TooManyBranchesError, match="far more than 1000 branches"):
        enumerate_calls(coins, max_branches=1000)
    assert len(runs) == run._LOOK


def test_a_tree_whose_first_branches_are_the_largest_is_run():
    def coins():
        return random.random() < 0.5 or [random.random() < 0.5 for _ in range(8)]

    assert len(enumerate_calls(coins, max_branches=257)) == 257
    assert len(enumerate_calls(lambda: random.random() >= 0.5 or coins(), max_branches=258)) == 258
