"""Toy models: rows, validation that names the spot, and laws of texts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import ToyModel, context_text, parse_context
from tests.strategies import instances

ROWS = {"": ["1/3", "2/3"], "0": ["1/2", "1/2"], "1": [0, 1]}


def test_conditionals_are_read_by_context():
    model = ToyModel.from_conditionals(ROWS)
    assert model.is_exact
    assert model.order == 1
    assert model.conditional((0,)).tolist() == [Fraction(1, 2)] * 2
    assert model.probability((0, 1)) == Fraction(1, 6)
    assert model.probability(()) == 1


def test_a_longer_context_is_cut_to_the_order():
    model = ToyModel.from_conditionals(ROWS)
    assert model.conditional((0, 0, 1)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"0": [1]}, 'context "" is missing'),
        ({"": [0.5, 0.5], "0": [1, 0]}, 'context "1": is missing'),
        ({"": [0.5, 0.4]}, 'context "": row sums to 0.9, expected 1'),
        ({"": [0.5, 0.5], "0": [1], "1": [1, 0]}, 'context "0": has 1 entries, expected 2'),
        ({"": [1.5, -0.5]}, 'context "", token 1: -0.5 is negative'),
        ({"": [float("nan"), 1]}, 'context "", token 0: nan is not finite'),
        ({"": ["x", 1]}, "context \"\", token 0: 'x' is not a number"),
        ({"": ["1/0", 1]}, "context \"\", token 0: '1/0' is not a number"),
        ({"": [True, False]}, 'context "", token 0: True is not a number'),
        ({"": [1, 0], "0": [1, 0], "1": [1, 0], "2": [1, 0]}, 'context "2": token outside 0..1'),
        ({"": [1, 0], "a": [1, 0]}, "context 'a': expected token numbers"),
        ({"": "no"}, "expected a list of probabilities"),
    ],
)
def test_errors_name_context_row_and_value(rows, message):
    with pytest.raises(InvalidInputError) as caught:
        ToyModel.from_conditionals(rows, name="target")
    assert message in str(caught.value)


def test_bad_float_levels_are_named_by_context():
    levels = [np.array([[0.5, 0.5]]), np.array([[0.5, 0.5], [0.7, 0.2]])]
    with pytest.raises(InvalidInputError, match='context "1": row sums to 0.9'):
        ToyModel.from_levels(levels)


@given(instances())
def test_joint_law_is_the_product_of_the_rows(instance):
    model = instance.target
    law = model.joint(2).reshape(model.vocab_size, model.vocab_size)
    assert law.sum() == 1
    for text in np.ndindex(*law.shape):
        assert law[text] == model.probability(text)


@given(instances())
def test_after_is_the_model_of_continuations(instance):
    model = instance.target
    for context in [(0,), (1, 0), (0, 1, 1), (1, 1, 0, 1)]:
        later = model.after(context)
        for suffix in [(), (1,), (0, 1), (1, 0, 0), (0, 0, 1, 1)]:
            assert later.conditional(suffix).tolist() == model.conditional(context + suffix).tolist()


@given(instances())
def test_floats_and_rationals_convert_both_ways(instance):
    assert instance.target.floats.exact.floats.joint(2) == pytest.approx(
        instance.target.joint(2).astype(float)
    )


def test_rationals_of_floats_sum_to_one_exactly():
    model = ToyModel.random(3, 2, seed=1).exact
    assert all((level.sum(axis=1) == 1).all() for level in model.levels)


def test_rounding_keeps_rows_probabilities():
    model = ToyModel.random(4, 2, seed=2).rounded(16)
    for level in model.levels:
        assert (level.sum(axis=1) == 1).all()
        assert all((number * 16).denominator == 1 for number in level.reshape(-1))


@pytest.mark.parametrize("context", [(), (3,), (0, 12, 1)])
def test_context_notation_round_trips(context):
    assert parse_context(context_text(context)) == context
