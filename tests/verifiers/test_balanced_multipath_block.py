"""Balanced multi-path block: never below global resolution, block verification for one path."""

import pytest
from hypothesis import given

import verifiers
from spec_oracle.exact import emission_law
from tests.strategies import instances
from tests.verifiers import balanced_reference as reference
from verifiers.rules.balanced_multipath_block import BalancedMultipathBlockVerifier
from verifiers.rules.global_resolution import GLOBAL_RESOLUTION

several_steps = instances(vocab_sizes=(2, 4), draft_lengths=(1, 3), num_paths=(1, 3), max_tuples=256)


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
