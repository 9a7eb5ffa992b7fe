"""Faulty rules for several paths are lossy where they should be, and nowhere else."""

from fractions import Fraction

import pytest
from hypothesis import given

import verifiers
from lab.specimens.registry import specimens
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from tests.verifiers.laws import require_same_law

RULES = [specimen for specimen in specimens(num_paths=2).values() if specimen.rule]
CORRECT = {specimen.name: specimen.rule for specimen in RULES if specimen.is_control}
FAULTY = {specimen.name: specimen.rule for specimen in RULES if not specimen.is_control}
TREES = instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 2), max_tuples=81)
ONE_PATH = instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), max_tuples=81)
LOSSY = Instance.random(3, 2, num_paths=2, seed=3).rounded(6)
TIED = Instance.context_free(["1/2", "1/4", "1/4"], ["1/2", "1/4", "1/4"], draft_length=2, num_paths=2)
CLIPPED = Instance.context_free(["3/5", "2/5", "0"], ["2/5", "1/5", "2/5"], draft_length=2, num_paths=2)
ORDERS = ("greedy-multipath-ties-differ", "greedy-multipath-clipped")


@given(instance=TREES)
@examples(20)
def test_controls_are_lossless_and_the_first_is_the_rule_itself(instance):
    ours, reversed_ties = (emission_law(verifier, instance, exact=True) for verifier in CORRECT.values())
    require_same_law(ours, emission_law(verifiers.get("greedy_multipath_block"), instance, exact=True))
    assert reversed_ties.total_variation == 0


@pytest.mark.parametrize("name", FAULTY)
def test_every_specimen_is_lossy_on_some_instance(name):
    gaps = [
        emission_law(FAULTY[name], instance, exact=True).total_variation
        for instance in (LOSSY, TIED, CLIPPED)
    ]
    assert max(gaps) > Fraction(1, 10**4)


@pytest.mark.parametrize("name", [name for name in FAULTY if name != "block-transport-forgetful"])
def test_torch_and_numpy_give_one_law(name):
    require_same_law(
        emission_law(FAULTY[name], LOSSY), emission_law(FAULTY[name], LOSSY, array="torch"), tolerance=1e-12
    )


@pytest.mark.parametrize("name", ORDERS)
@given(instance=ONE_PATH)
@examples(10)
def test_with_one_path_the_order_does_not_matter(name, instance):
    require_same_law(
        emission_law(FAULTY[name], instance, exact=True),
        emission_law(verifiers.get("block"), instance, exact=True),
    )


@pytest.mark.parametrize(
    "name", ["k-seq-rounded-down", "block-transport-ratios", "block-transport-ratios-wrong-residual"]
)
@given(instance=ONE_PATH)
@examples(10)
def test_with_one_path_ratios_are_the_token_rule(name, instance):
    require_same_law(
        emission_law(FAULTY[name], instance), emission_law(verifiers.get("token"), instance), tolerance=1e-12
    )


@given(instance=instances(vocab_sizes=(2, 3), draft_lengths=(1, 1), num_paths=(1, 2)))
@examples(10)
def test_a_block_of_one_token_has_nothing_to_forget(instance):
    forgetful = emission_law(FAULTY["block-transport-forgetful"], instance, exact=True)
    require_same_law(forgetful, emission_law(verifiers.get("block_transport"), instance, exact=True))
    assert forgetful.total_variation == 0


@given(instance=TREES)
@examples(10)
def test_forgetting_shows_in_the_text_but_not_in_the_accepted_length(instance):
    forgetful = emission_law(FAULTY["block-transport-forgetful"], instance, exact=True)
    require_same_law(forgetful, emission_law(verifiers.get("block_transport"), instance, exact=True))
