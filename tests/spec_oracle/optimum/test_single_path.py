"""The closed form for one path, against block verification and against its own certificate."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.optimum import check_certificate, single_path_optimum
from spec_oracle.toy import KINDS, Instance
from tests.strategies import examples

instances = st.builds(
    Instance.random,
    st.integers(2, 4),
    st.integers(1, 2),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(sorted(KINDS)),
    agreement=st.sampled_from([0.0, 0.25]),
)


def test_block_verification_reaches_it_on_the_worked_example(worked_example):
    assert single_path_optimum(worked_example, exact=True).value == 1 + Fraction(11, 9)


@examples(50)
@given(instances)
def test_block_verification_reaches_it_exactly_and_token_verification_never_exceeds_it(instance):
    optimum = single_path_optimum(instance, exact=True)
    block = emission_law(verifiers.get("block"), instance, exact=True)
    token = emission_law(verifiers.get("token"), instance, exact=True)
    assert block.block_efficiency == optimum.value >= token.block_efficiency
    assert check_certificate(instance, optimum.certificate) == optimum.gap == 0


def test_special_instances_have_a_proof_too(special_instance):
    optimum = single_path_optimum(special_instance, exact=True)
    block = emission_law(verifiers.get("block"), special_instance.with_paths(1), exact=True)
    assert block.block_efficiency == optimum.value
    assert check_certificate(special_instance, optimum.certificate) == 0


def test_value_is_a_float_unless_rationals_are_asked_for(random_instance):
    optimum = single_path_optimum(random_instance)
    assert isinstance(optimum.value, float)
    assert optimum.value == pytest.approx(float(optimum.certificate.value), abs=0)
    assert isinstance(single_path_optimum(random_instance, exact=True).value, Fraction)
