"""Constants and masks hold whatever the values are, in the number type of the values."""

from fractions import Fraction
from numbers import Rational

import numpy as np
import pytest
import torch

from verifiers.arrays import all_true, divide, filled, kept, minimum_one, ones, positive_part, zeros

HOSTILE = [float("nan"), float("inf"), -float("inf"), -0.5, 2.0]


@pytest.fixture(params=["float64", "float32", "torch"])
def hostile(request):
    if request.param == "torch":
        return torch.tensor(HOSTILE, dtype=torch.float32)
    return np.array(HOSTILE, dtype=request.param)


def test_constants_do_not_depend_on_the_values(hostile):
    for constant, number in ((zeros(hostile), 0), (ones(hostile), 1), (filled(hostile, -3), -3)):
        assert constant.tolist() == [number] * 5
        assert constant.dtype == hostile.dtype
    assert all_true(hostile).tolist() == [True] * 5


def test_masked_values_are_gone(hostile):
    left = kept(hostile > 1, hostile)
    assert left.tolist() == [0, float("inf"), 0, 0, 2]
    assert left.dtype == hostile.dtype


def test_nan_is_neither_a_surplus_nor_a_chance(hostile):
    assert np.isnan(float(positive_part(hostile)[0]))
    assert positive_part(hostile)[1:].tolist() == [float("inf"), 0, 0, 2]
    assert np.isnan(float(minimum_one(hostile)[0]))
    assert minimum_one(hostile)[1:].tolist() == [1, -float("inf"), -0.5, 1]
    assert divide(ones(hostile), hostile, otherwise=7)[0] == 7


def test_constants_of_rationals_are_rationals():
    values = np.array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    for constant in (
        zeros(values),
        ones(values),
        kept(values > 1, values),
        divide(values, zeros(values), otherwise=1),
    ):
        assert {type(number) for number in constant} == {Fraction}


@pytest.mark.parametrize("number", [0.5, np.float64(0.5), np.float32(0.5), Fraction(1, 2)])
def test_a_float_becomes_a_rational_among_rationals(number):
    for some in (Fraction(1, 3), pytest.importorskip("gmpy2").mpq(1, 3), 3):
        found = filled(np.array([some, some], dtype=object), number)
        assert found.tolist() == [Fraction(1, 2)] * 2
        assert all(isinstance(one, Rational) for one in found)


def test_a_float_that_is_no_number_stays_one_among_rationals():
    assert np.isnan(filled(np.array([Fraction(1, 3)], dtype=object), float("nan")).astype(float)).all()
