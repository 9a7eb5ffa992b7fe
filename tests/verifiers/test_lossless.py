"""Every verifier, by exact enumeration: lossless in three arithmetics, and never better than is possible."""

import numpy as np
import pytest
from hypothesis import example, given

import verifiers
from spec_oracle.exact import decoded_law, emission_law
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, single_path_optimum
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from verifiers import StatefulVerifier, drafting_of

ROUNDING = 1e-12

SINGLE_PATH = ("token", "block")
CHAINS = instances(vocab_sizes=(2, 5), draft_lengths=(1, 4), max_tuples=700)
TREES = instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=300)
SMALL_TREES = instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3), max_tuples=81)

WORKED = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)


def test_worked_example_of_block_verification():
    token, block = (
        emission_law(verifiers.get(rule), WORKED, exact=True, merged=False) for rule in SINGLE_PATH
    )
    assert token.block_efficiency - 1 == WORKED.target.levels[0][0, 0] * 10 / 3
    assert str(token.block_efficiency - 1) == "10/9"
    assert str(block.block_efficiency - 1) == "11/9"


@given(CHAINS)
@example(WORKED)
@examples(60)
def test_token_and_block_are_lossless_and_block_is_the_single_path_optimum(instance):
    token, block = (emission_law(verifiers.get(rule), instance, merged=False) for rule in SINGLE_PATH)
    assert token.total_variation < ROUNDING
    assert block.total_variation < ROUNDING
    best = single_path_optimum(instance).value
    assert block.block_efficiency == pytest.approx(best, abs=ROUNDING)
    assert token.block_efficiency <= block.block_efficiency + ROUNDING


@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 4), max_tuples=81))
@examples(150)
def test_token_and_block_are_lossless_in_rationals(instance):
    token, block = (
        emission_law(verifiers.get(rule), instance, exact=True, merged=False) for rule in SINGLE_PATH
    )
    assert token.total_variation == 0
    assert block.total_variation == 0
    assert block.block_efficiency == single_path_optimum(instance, exact=True).value
    assert token.block_efficiency <= block.block_efficiency


@given(instance=TREES)
@examples(40)
def test_lossless_in_floats(verifier, instance):
    assert emission_law(verifier, instance, merged=False).total_variation < ROUNDING


@given(instance=SMALL_TREES)
@examples(25)
def test_lossless_in_rationals(verifier, instance):
    assert emission_law(verifier, instance, exact=True, merged=False).total_variation == 0


@given(
    instance=instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 2), max_tuples=81, dyadic=True)
)
@examples(15)
def test_three_arithmetics_give_one_law(verifier, instance):
    floats = emission_law(verifier, instance, merged=False)
    rationals = emission_law(verifier, instance, exact=True, merged=False)
    torch = emission_law(verifier, instance, array="torch", merged=False)
    for one, other, third in zip(floats.masses, rationals.masses, torch.masses, strict=True):
        np.testing.assert_allclose(one, other.astype(float), rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(one, third, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_low_precision_inputs_are_computed_in_float32(verifier, dtype):
    # Multiples of 1/64 are exact in all these types, so only the arithmetic inside can be off.
    instance = Instance.random(3, 2, num_paths=2, seed=5, agreement=0.4).rounded(64)
    law = emission_law(verifier, instance, array="torch", dtype=dtype, merged=False)
    assert law.total_variation < 1e-6


@given(instance=SMALL_TREES)
@examples(40)
def test_no_verifier_exceeds_the_optimum(verifier, instance):
    best = block_transport_optimum if isinstance(verifier, StatefulVerifier) else multi_path_optimum
    optimum = best(instance, drafting=drafting_of(verifier)).value
    assert emission_law(verifier, instance, merged=False).block_efficiency <= optimum + 1e-9


@given(instance=instances(vocab_sizes=(2, 2), draft_lengths=(1, 2), num_paths=(1, 2), max_tuples=16))
@examples(10)
def test_text_of_three_calls_is_the_targets(verifier, instance):
    tokens = 2 * (instance.draft_length + 1) + 1
    assert decoded_law(verifier, instance, tokens).total_variation < ROUNDING
    assert decoded_law(verifier, instance, tokens // 2 + 1, stop_token=1).total_variation < ROUNDING


def test_text_over_calls_is_lossless_in_rationals(verifier):
    instance = Instance.random(2, 2, num_paths=2, seed=3).rounded(8)
    assert decoded_law(verifier, instance, 4, exact=True).total_variation == 0
