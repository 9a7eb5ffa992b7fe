"""Draft trees as drafters make them: what is drafted keeps its law, whatever the order of the places."""

import numpy as np
import pytest

import verifiers
from spec_oracle.audit.larger_trees import InOrder, depth_first, in_turn, later_sizes, open_at
from spec_oracle.exact import emission_law
from spec_oracle.exact.drafting import ShapedTrees, TreeShape
from verifiers import EMPTY, ROOT, Siblings

BRANCHING = TreeShape.fan_out(2, 2, 1)


@pytest.mark.parametrize("order", [depth_first(BRANCHING), in_turn(BRANCHING, 0), in_turn(BRANCHING, 1)])
def test_places_in_another_order_are_the_same_trees(order):
    assert sorted(order) == [*range(len(BRANCHING.parents))]
    toy = open_at(0, 3, 3, 3, 0)
    drafting = ShapedTrees(BRANCHING, Siblings.DISTINCT)
    rule = verifiers.get("recursive_rejection_distinct")
    usual, other = (emission_law(rule, toy, drafting=one) for one in (drafting, InOrder(drafting, order)))
    assert other.total_variation < 1e-12
    for mine, theirs in zip(other.masses, usual.masses, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_parents_come_before_their_children_in_any_order(seed):
    law = InOrder(ShapedTrees(BRANCHING), in_turn(BRANCHING, seed)).law(open_at(0, 3, 3, 2, 0))
    assert (law.parents < np.arange(law.parents.shape[1])).all()
    assert {*np.unique(law.parents).tolist()} <= {EMPTY, ROOT, *range(law.parents.shape[1])}


def test_trees_of_drafters_are_wide_and_deep():
    cases = [case for case in later_sizes({Siblings.DISTINCT}, 0) if "places in" in case.kind]
    laws = [case.drafting.law(case.instance) for case in cases]
    assert {law.fan_out for law in laws} == {3, 4, 5}
    assert {law.depth for law in laws} == {4, 5}
    assert {case.instance.vocab_size for case in cases} == {5, 6}
    assert max(len(law.tokens) for law in laws) <= 5**5


@pytest.mark.parametrize("name", ["recursive_rejection_distinct", "traversal", "univer"])
def test_rules_for_trees_are_lossless_on_them(name):
    """Of independent siblings there are up to 3,125 trees, which `shapes` tries."""
    rule = verifiers.get(name)
    accepted = verifiers.accepts_of(rule) - {Siblings.INDEPENDENT, Siblings.PATHS}
    for case in later_sizes(accepted, 0):
        if "places in" in case.kind:
            law = emission_law(rule, case.instance, drafting=case.drafting)
            assert law.total_variation < 1e-12, case
