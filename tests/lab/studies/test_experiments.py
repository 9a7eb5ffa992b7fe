"""The experiment with carry-over is lossless by enumeration, and its law of counts is that of the plans."""

import numpy as np
import pytest

import verifiers
from lab.studies.carried_block import CarriedBlockVerifier
from lab.studies.count_law import counted_selection
from spec_oracle.exact import decoded_law, emission_law, tokens_per_call
from spec_oracle.toy import Instance
from tests.strategies import at_night


@pytest.mark.parametrize(("vocab", "length", "paths"), [(2, 2, 2), *at_night((2, 3, 2))])
@pytest.mark.parametrize("kind", ["sparse", "reversed"])
def test_carry_over_is_lossless_over_several_calls(vocab, length, paths, kind):
    instance = Instance.random(vocab, length, num_paths=paths, seed=4, kind=kind, agreement=0.2)
    law = decoded_law(CarriedBlockVerifier(), instance, length + 1)
    assert law.total_variation <= 1e-12


def test_carry_over_of_one_path_is_greedy_block():
    instance = Instance.random(3, 2, seed=2, agreement=0.3)
    greedy = emission_law(verifiers.get("greedy_block"), instance)
    found = emission_law(CarriedBlockVerifier(), instance)
    assert found.block_efficiency == pytest.approx(greedy.block_efficiency, abs=1e-12)


def test_law_of_counts_adds_up_to_the_plans_law():
    rng = np.random.default_rng(1)
    target, draft = rng.dirichlet(np.ones(4), 5), rng.dirichlet(np.ones(4), 5)
    selection = counted_selection(target, draft, 3)
    np.testing.assert_allclose(
        selection.law.sum(axis=2), selection.plans.law.reshape(5, 3, 4), rtol=0, atol=1e-13
    )


def test_tokens_per_call_of_a_rule_without_state():
    instance = Instance.random(2, 2, num_paths=2, seed=3)
    rule = verifiers.get("balanced_multipath_block")
    law = emission_law(rule, instance)
    second = sum(
        mass * emission_law(rule, instance.after(text)).block_efficiency
        for text, mass in law.probabilities.items()
    )
    assert tokens_per_call(rule, instance, 2) == pytest.approx((law.block_efficiency, second), abs=1e-12)
