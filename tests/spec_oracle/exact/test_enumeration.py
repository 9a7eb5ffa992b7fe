"""The enumerating decision source: every outcome once, with its probability, and clear errors."""

import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from spec_oracle.exact import DecisionError, enumerate_branches
from spec_oracle.exact.errors import NotInTimeError


def outcomes(run, probability, max_rows=1000):
    found = Counter()
    for branches in enumerate_branches(run, np.asarray(probability), max_rows=max_rows):
        for row, weight, result in zip(branches.rows, branches.weight, branches.result, strict=True):
            found[int(row), *np.atleast_1d(result).tolist()] += weight
    return dict(found)


def test_a_coin_and_a_die_give_the_product_law():
    def run(rows, decisions):
        coin = decisions.bernoulli(np.full(len(rows), 0.25))
        die = decisions.categorical(np.tile([1.0, 0.0, 3.0], (len(rows), 1)))
        return np.stack([coin, die], axis=1)

    assert outcomes(run, [1.0]) == {
        (0, 0, 0): 0.75 * 0.25,
        (0, 0, 2): 0.75 * 0.75,
        (0, 1, 0): 0.25 * 0.25,
        (0, 1, 2): 0.25 * 0.75,
    }


def test_rationals_stay_rational():
    def run(rows, decisions):
        return decisions.bernoulli(np.array([[Fraction(1, 3)] * 2] * len(rows), dtype=object))

    law = outcomes(run, np.array([Fraction(1)], dtype=object))
    assert law[0, True, True] == Fraction(1, 9)
    assert sum(law.values()) == 1


def test_later_decisions_may_depend_on_earlier_ones():
    def run(rows, decisions):
        first = decisions.bernoulli(np.full(len(rows), 0.5))
        second = decisions.bernoulli(np.where(first, 1.0, 0.0))
        return first == second

    assert outcomes(run, [1.0]) == {(0, True): 1.0}


def test_chunks_do_not_change_the_law():
    def run(rows, decisions):
        die = decisions.categorical(np.ones((len(rows), 6)) + rows[:, None])
        return die + 6 * decisions.categorical(np.ones((len(rows), 6)))

    probability = np.full(5, 0.2)
    whole, pieces = outcomes(run, probability), outcomes(run, probability, max_rows=7)
    assert whole.keys() == pieces.keys()
    assert len(whole) == 180
    assert all(whole[key] == pytest.approx(pieces[key], abs=1e-15) for key in whole)


def test_a_step_that_was_finished_is_not_taken_again():
    tosses = Counter()

    def law(name, how):
        def run(rows, decisions):
            coins = np.zeros((len(rows), 0), dtype=bool)

            def toss():
                tosses[name] += 1
                more = decisions.bernoulli(np.where(coins.any(axis=1), 0.25, 0.5))
                return (np.column_stack([coins, more]),)

            for _ in range(6):
                (coins,) = how(decisions)(toss)
            return coins

        return outcomes(run, [1.0])

    assert law("kept", lambda decisions: decisions.step_once) == law("anew", lambda _: lambda toss: toss())
    assert tosses == {"kept": 1 + 2 * 5 + 1, "anew": 1 + 2 + 3 + 4 + 5 + 6 + 6}


def test_chances_beyond_the_unit_interval_are_clipped_as_sampling_clips_them():
    def run(rows, decisions):
        return decisions.bernoulli(np.array([[1.5, -0.5]] * len(rows)))

    assert outcomes(run, [1.0]) == {(0, True, False): 1.0}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[np.nan, 1.0]], r"decision 0: a weight is NaN at index \(0, 0\)"),
        ([[1.0, -1.0]], r"decision 0: a weight is negative at index \(0, 1\)"),
        ([[0.0, 0.0]], "decision 0: all weights are zero"),
    ],
)
def test_impossible_weights_are_refused(weights, message):
    with pytest.raises(DecisionError, match=message):
        outcomes(lambda rows, decisions: decisions.categorical(np.array(weights)), [1.0])


def test_a_probability_that_is_nan_is_refused():
    with pytest.raises(DecisionError, match="a probability is NaN"):
        outcomes(lambda rows, decisions: decisions.bernoulli(np.array([np.nan])), [1.0])


def test_code_with_randomness_of_its_own_is_noticed():
    rng = np.random.default_rng(0)

    def run(rows, decisions):
        return decisions.bernoulli(np.full(len(rows), rng.random()))

    with pytest.raises(DecisionError, match="decision 0: its probabilities changed"):
        outcomes(run, np.full(20, 0.05))


def test_code_that_changes_its_question_is_noticed():
    calls = []

    def run(rows, decisions):
        calls.append(1)
        return decisions.bernoulli(np.full((len(rows), len(calls)), 0.5))

    with pytest.raises(DecisionError, match="decision 0: its probabilities changed"):
        outcomes(run, [1.0])


@pytest.fixture
def a_microsecond_a_row(monkeypatch):
    """Return what makes a rule take a microsecond of processor time for every row that it is run on."""
    spent = [0.0]
    for name in ("process_time", "monotonic"):
        monkeypatch.setattr(time, name, lambda: spent[0])

    def slow(run):
        def running(rows, decisions):
            spent[0] += len(rows) / 1e6
            return run(rows, decisions)

        return running, spent

    return slow


def test_what_has_far_too_many_outcomes_is_given_up_early(a_microsecond_a_row):
    """Five ways are gone as one batch, which ends at 8 million outcomes: 3^14 of 3^25."""
    of_five_rows = []

    def run(rows, decisions):
        if len(rows) == 5:
            of_five_rows.append(rows)
        return sum(decisions.categorical(np.ones((len(rows), 3))) for _ in range(25))

    slow, spent = a_microsecond_a_row(run)
    with pytest.raises(NotInTimeError, match="far more outcomes than can be run in this time"):
        list(enumerate_branches(slow, np.full(2, 0.5), max_rows=1000, end=1.0))
    assert spent[0] < 0.1
    assert 14 < len(of_five_rows) < 17


def test_a_few_long_ways_are_not_taken_for_far_too_many_outcomes(a_microsecond_a_row):
    """Each accepted token asks for another one: a row has 31 outcomes, not 2^30."""

    def run(rows, decisions):
        going, length = np.ones(len(rows), bool), np.zeros(len(rows), int)
        for _ in range(30):
            going = going & decisions.bernoulli(np.where(going, 0.9, 0.0))
            length += going
        return length

    slow, spent = a_microsecond_a_row(run)
    found = list(enumerate_branches(slow, np.full(200, 1 / 200), max_rows=1000, end=0.15))
    assert sum(len(branches.rows) for branches in found) == 200 * 31
    assert spent[0] > 0.15 / 4
