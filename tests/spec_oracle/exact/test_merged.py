"""Laws with less to enumerate are the laws of all draft tuples, wherever a rule declares what allows it."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given

import verifiers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.toy import Instance
from tests.strategies import at_night, examples, instances
from verifiers import ROOT, Verdict

DECLARED = [
    name
    for name in verifiers.names()
    if (traits := verifiers.traits_of(verifiers.get(name))).walks or traits.any_order
]


@pytest.mark.parametrize("name", DECLARED)
@given(instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3)))
@examples(15)
def test_merged_and_plain_laws_are_equal_in_rationals(name, instance):
    rule = verifiers.get(name)
    merged, plain = (emission_law(rule, instance, exact=True, merged=merged) for merged in (True, False))
    assert all((left == right).all() for left, right in zip(merged.masses, plain.masses, strict=True))
    assert merged.total_variation == 0


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("array", ["numpy", *at_night("torch")])
def test_merged_and_plain_laws_are_equal_in_floats(name, array):
    instance = Instance.random(3, 3, seed=2, num_paths=2)
    rule = verifiers.get(name)
    merged, plain = (emission_law(rule, instance, array=array, merged=merged) for merged in (True, False))
    assert merged.total_variation < 1e-12
    for left, right in zip(merged.masses, plain.masses, strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-13)


def test_most_rules_declare_something():
    assert {"recursive_rejection", "k_seq", "global_resolution", "greedy_multipath_block"} <= {*DECLARED}
    assert "traversal" not in DECLARED  # it goes through the children in the order in which they were drawn


@dataclass(frozen=True)
class _AlwaysStops:
    walks: bool = True

    def verify(self, drafts, decisions):
        token = decisions.categorical(drafts.target.row(ROOT))
        return Verdict(token * 0 + ROOT, token, drafts)


def test_a_declaration_that_is_seen_to_be_untrue_is_refused():
    with pytest.raises(InvalidInputError, match="walks: the verifier stops at a token"):
        emission_law(_AlwaysStops(), Instance.random(2, 2, seed=1))
