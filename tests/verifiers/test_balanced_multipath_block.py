"""Balanced multi-path block: lossless, never below global resolution, block verification for one path."""

import numpy as np
import pytest
from hypothesis import given

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from tests.verifiers import balanced_reference as reference
from verifiers.rules.balanced_multipath_block import BalancedMultipathBlockVerifier
from verifiers.rules.global_resolution import GLOBAL_RESOLUTION

several_steps = instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=256)


@given(several_steps)
@examples(40)
def test_lossless(instance):
    assert emission_law(BalancedMultipathBlockVerifier(), instance, merged=False).total_variation <= 1e-12


@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3), max_tuples=40))
@examples(40)
def test_exactly_lossless_in_rationals(instance):
    assert (
        emission_law(BalancedMultipathBlockVerifier(), instance, exact=True, merged=False).total_variation
        == 0
    )


@given(several_steps)
def test_never_below_global_resolution(instance):
    block = emission_law(BalancedMultipathBlockVerifier(), instance, merged=False).block_efficiency
    walk = emission_law(GLOBAL_RESOLUTION, instance, merged=False).block_efficiency
    assert block >= walk - 1e-9


@given(instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), num_paths=(1, 1)))
def test_one_path_is_block_verification(instance):
    law = emission_law(BalancedMultipathBlockVerifier(), instance, merged=False)
    expected = emission_law(verifiers.get("block"), instance, merged=False)
    for found, wanted in zip(law.masses, expected.masses, strict=True):
        assert abs(found - wanted).max() <= 1e-13


@given(instances(vocab_sizes=(2, 6), draft_lengths=(1, 1), num_paths=(1, 4), max_tuples=256))
def test_one_step_attains_the_optimum(instance):
    law = emission_law(BalancedMultipathBlockVerifier(), instance, merged=False)
    p, q = instance.exact.target.rows(0)[0], instance.exact.draft.rows(0)[0]
    optimum = float(reference.optimal_acceptance(p, q, instance.num_paths))
    assert law.block_efficiency == pytest.approx(1 + optimum, abs=1e-9)


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_float32_rows_are_planned_in_float64(array):
    instance = Instance.random(3, 2, num_paths=2, seed=6)
    law = emission_law(BalancedMultipathBlockVerifier(), instance, array=array, dtype="float32", merged=False)
    assert law.total_variation <= 1e-6


def test_a_larger_batch_gives_the_same_verdicts():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(50), size=(8, 3, 5))
    # Rows of the first position are those of one node.
    rows[:, :, 0] = rows[:, :1, 0]
    rows[:, :, 3] = rows[:, :1, 3]
    drafts = verifiers.Drafts(rng.integers(0, 50, (8, 3, 2)), rows[:, :, 3:], rows[:, :, :3])
    verdict = BalancedMultipathBlockVerifier().verify(drafts, _Highest())
    for b in range(8):
        one = verifiers.Drafts(
            drafts.tokens[b : b + 1], drafts.draft_probs[b : b + 1], drafts.target_probs[b : b + 1]
        )
        assert BalancedMultipathBlockVerifier().verify(one, _Highest()).emitted.tolist() == [
            verdict.emitted[b].tolist()
        ]


class _Highest:
    """Decides for the likeliest outcome."""

    def bernoulli(self, probability):
        return probability > 0.5

    def categorical(self, weights):
        return weights.argmax(axis=-1)
