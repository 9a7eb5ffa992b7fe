"""The enumerating decision source: every outcome once, with its probability, and clear errors."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from spec_oracle.exact import DecisionError, enumerate_branches


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
