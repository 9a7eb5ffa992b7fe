"""Every rule on paths and on trees, enumerated: lossless in three arithmetics, never above the optimum."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import verifiers
from spec_oracle.exact import decoded_law
from spec_oracle.exact.drafting import ShapedTrees
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, single_path_optimum
from spec_oracle.toy import Instance
from tests.strategies import by_day, examples, instances
from tests.verifiers.draftings import SHAPES, drafted
from tests.verifiers.laws import law
from verifiers import Siblings, StatefulVerifier, accepts_of, drafting_of

ROUNDING = 1e-12

SINGLE_PATH = ("token", "block")
CHAINS = instances(vocab_sizes=(2, 5), draft_lengths=(1, 4), max_tuples=700)

WORKED = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)


def test_worked_example_of_block_verification():
    token, block = (law(rule, WORKED, exact=True) for rule in SINGLE_PATH)
    assert token.block_efficiency - 1 == WORKED.target.levels[0][0, 0] * 10 / 3
    assert str(token.block_efficiency - 1) == "10/9"
    assert str(block.block_efficiency - 1) == "11/9"


@given(CHAINS)
@example(WORKED)
@examples(60)
def test_block_is_the_single_path_optimum(instance):
    token, block = (law(rule, instance) for rule in SINGLE_PATH)
    assert max(token.total_variation, block.total_variation) < ROUNDING
    best = single_path_optimum(instance).value
    assert block.block_efficiency == pytest.approx(best, abs=ROUNDING)
    assert token.block_efficiency <= block.block_efficiency + ROUNDING


@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 4), max_tuples=81))
@examples(150)
def test_block_is_the_single_path_optimum_in_rationals(instance):
    token, block = (law(rule, instance, exact=True) for rule in SINGLE_PATH)
    assert token.total_variation == block.total_variation == 0
    assert block.block_efficiency == single_path_optimum(instance, exact=True).value
    assert token.block_efficiency <= block.block_efficiency


@given(data=st.data())
@examples(25)
def test_lossless_in_floats_and_never_above_the_optimum(name, kind, data):
    sizes = {"vocab_sizes": (2, 4), "draft_lengths": (1, 3)}
    instance, drafting = data.draw(drafted(name, kind, max_tuples=300, **sizes))
    found = law(name, instance, drafting)
    assert found.total_variation < ROUNDING
    carries = isinstance(verifiers.get(name), StatefulVerifier)
    optimum = block_transport_optimum if carries else multi_path_optimum
    assert found.block_efficiency <= optimum(instance, drafting=drafting).value + 1e-9


@given(data=st.data())
@examples(25)
def test_lossless_in_rationals(name, kind, data):
    instance, drafting = data.draw(drafted(name, kind, max_tuples=81))
    assert law(name, instance, drafting, exact=True).total_variation == 0


@given(data=st.data())
@examples(15)
def test_three_arithmetics_give_one_law(name, kind, data):
    instance, drafting = data.draw(drafted(name, kind, max_tuples=81, dyadic=True))
    floats, rationals, torch = (
        law(name, instance, drafting, **options) for options in ({}, {"exact": True}, {"array": "torch"})
    )
    for one, other, third in zip(floats.masses, rationals.masses, torch.masses, strict=True):
        np.testing.assert_allclose(one, other.astype(float), rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(one, third, rtol=0, atol=ROUNDING)


LOW_PRECISION = (("numpy", "float32"), *(("torch", dtype) for dtype in ("float32", "bfloat16", "float16")))


@pytest.mark.parametrize(("array", "dtype"), by_day(LOW_PRECISION, [("torch", "bfloat16")]))
def test_low_precision_inputs_are_computed_in_float32(name, kind, array, dtype):
    # Multiples of 1/64 are exact in all these types, so only the arithmetic inside can be off.
    instance = Instance.random(3, 2, num_paths=2, seed=5, agreement=0.4).rounded(64)
    drafting = drafting_of(verifiers.get(name))
    if kind == "trees":
        siblings = Siblings.PATHS if Siblings.PATHS in accepts_of(verifiers.get(name)) else drafting
        drafting = ShapedTrees(SHAPES[1], siblings)
    assert law(name, instance, drafting, array=array, dtype=dtype).total_variation < 1e-6


@given(instance=instances(vocab_sizes=(2, 2), draft_lengths=(1, 2), num_paths=(1, 2), max_tuples=16))
@examples(10)
def test_text_of_three_calls_is_the_targets(verifier, instance):
    tokens = 2 * (instance.draft_length + 1) + 1
    assert decoded_law(verifier, instance, tokens).total_variation < ROUNDING
    assert decoded_law(verifier, instance, tokens // 2 + 1, stop_token=1).total_variation < ROUNDING


def test_text_over_calls_is_lossless_in_rationals(verifier):
    instance = Instance.random(2, 2, num_paths=2, seed=3).rounded(8)
    assert decoded_law(verifier, instance, 4, exact=True).total_variation == 0
