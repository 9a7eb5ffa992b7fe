"""Chains of monotone steps: thresholds agree with values, and equal functions have equal chains."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.maps import (
    IDENTITY,
    affine,
    exp,
    floor,
    gumbel_form,
    log,
    negation,
    power,
)

slopes = st.floats(0.1, 5) | st.floats(-5, -0.1)


@st.composite
def chains(draw):
    """Draw a chain that is defined on all of (0, 1)."""
    chain = IDENTITY
    for _ in range(draw(st.integers(0, 5))):
        ends = maps.value_at(chain, 0.0), maps.value_at(chain, 1.0)
        kind = draw(st.sampled_from(["affine", "log", "exp", "reciprocal"]))
        if kind == "affine":
            chain = affine(chain, draw(st.floats(-3, 3)), draw(slopes))
        elif kind == "exp" and max(ends) < 20:
            chain = exp(chain)
        elif min(ends) >= 0:
            chain = log(chain) if kind == "log" else power(chain, -1.0)
    return chain


@given(chains(), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_threshold_agrees_with_values(chain, u, at):
    assume(abs(u - at) > 1e-3)
    bound = maps.value_at(chain, at)
    assume(math.isfinite(bound) and abs(bound) < 1e6)
    assume(abs(maps.value_at(chain, u) - bound) > 1e-6 * max(1.0, abs(bound)))
    cut, increasing = maps.threshold(chain, bound)
    assert (maps.value_at(chain, u) < bound) == ((u < cut) == increasing)


def test_thresholds_outside_the_range():
    assert maps.threshold(log(IDENTITY), -math.inf) == (0.0, True)
    assert maps.threshold(exp(IDENTITY), -1.0) == (-math.inf, True)
    assert maps.threshold(power(IDENTITY, -1.0), 0.0) == (math.inf, False)


def test_maps_have_normal_forms():
    assert exp(log(IDENTITY)) == IDENTITY
    assert affine(affine(IDENTITY, 1.0, -1.0), 1.0, -1.0) == IDENTITY
    assert power(power(IDENTITY, -1.0), -1.0) == IDENTITY
    assert negation(negation(log(IDENTITY))) == log(IDENTITY)
    assert log(affine(IDENTITY, 0.0, 3.0)) == affine(log(IDENTITY), math.log(3.0), 1.0)


@pytest.mark.parametrize("base", [IDENTITY, affine(IDENTITY, 1.0, -1.0)])
def test_noise_is_recognised(base):
    exponential = negation(log(base))
    quotient = affine(power(exponential, -1.0), 0.0, 0.3)
    form = gumbel_form(quotient)
    assert form is not None
    assert (form.exponentiated, form.sign, form.scale) == (True, 1, -1.0)
    assert form.location == pytest.approx(math.log(0.3))
    assert gumbel_form(log(quotient)) == form._replace(exponentiated=False)
    assert gumbel_form(base) is None
    assert gumbel_form(affine(exponential, 0.5, 1.0)) is None


def test_functions_that_differ_have_chains_that_differ():
    assert len({log(IDENTITY), exp(IDENTITY), floor(IDENTITY)}) == 3


STEPS = {
    "floor": (floor, math.floor),
    "floor of a falling function": (lambda chain: floor(negation(chain)), lambda value: math.floor(-value)),
    "floor, falling": (
        lambda chain: affine(floor(chain), 1.0, -2.0),
        lambda value: 1 - 2 * math.floor(value),
    ),
}


@given(
    st.sampled_from(list(STEPS)),
    st.tuples(st.floats(-6, 6), st.floats(0.125, 6)),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.floats(0, 1),
    st.booleans(),
)
def test_thresholds_of_steps_agree_with_values(name, line, u, at, inclusive):
    """``at`` gives a bound that is a value of the function, so that ties are met."""
    (offset, slope), (make, step) = line, STEPS[name]
    chain, bound = make(affine(IDENTITY, offset, slope)), step(offset + slope * at)
    cut, increasing = maps.threshold(chain, bound, inclusive=inclusive)
    assume(abs(u - cut) > 1e-9)
    value = step(offset + slope * u)
    assert (value <= bound if inclusive else value < bound) == ((u < cut) == increasing)


def test_rounding_that_decides_is_not_guessed():
    tenths = affine(floor(affine(IDENTITY, 0.0, 1000.0)), 0.0, 1e-3)
    assert math.isnan(maps.threshold(tenths, 0.3)[0])
    assert maps.threshold(tenths, 0.30001)[0] == pytest.approx(0.301)
    assert maps.threshold(tenths, 0.0) == (0.0, True)  # zero is no rounded product
    binary = affine(floor(affine(IDENTITY, 0.0, 1024.0)), 0.0, 2.0**-10)
    assert maps.threshold(binary, 0.5) == (0.5, True)
    assert maps.threshold(binary, 0.5, inclusive=True) == (0.5 + 2.0**-10, True)


def test_fine_integers_are_idealised():
    count = 2.0**53
    integer = floor(affine(IDENTITY, 0.0, count))
    assert affine(integer, 0.0, 1 / count) == IDENTITY
    coarse = floor(affine(IDENTITY, 0.0, 2.0**16))
    assert affine(coarse, 0.0, 2.0**-16) != IDENTITY
    assert floor(affine(integer, 3.0, 1.0)) == affine(integer, 3.0, 1.0)
