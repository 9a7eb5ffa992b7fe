"""Rules on draft trees: theorems, special cases, and wrong laws of siblings, which are found."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import verifiers
from spec_oracle.exact.drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.optimum import single_path_optimum, tree_optimum
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from tests.verifiers.draftings import SHAPES, TREE_RULES, TREES
from tests.verifiers.laws import law, require_same_law
from verifiers import EMPTY, Siblings, accepts_of

ROUNDING = 1e-12
TOYS = instances(vocab_sizes=(2, 3), draft_lengths=(2, 2), max_tuples=100)


@given(instance=TOYS, drafting=st.sampled_from(TREES))
@examples(50)
def test_eagle_samples_the_target_one_sibling_at_a_time(instance, drafting):
    require_same_law(*(law(name, instance, drafting, exact=True) for name in ("eagle", "nss")))


@given(instance=instances(vocab_sizes=(2, 4), draft_lengths=(1, 2)), count=st.integers(1, 6))
@examples(50)
def test_one_tree_without_randomness_allows_the_target_mass_of_its_nodes(instance, count):
    """The theorem of docs/theory.md, "Trees": EAGLE's rule attains it, so no verification beats that rule."""
    drafting = LikeliestNodes(count)
    nodes = drafting.law(instance.exact).nodes[0]
    lengths = range(instance.draft_length + 1)
    joint = np.concatenate([instance.exact.target.joint(length) for length in lengths])
    bound = joint[np.unique(nodes)].sum()
    assert tree_optimum(instance, drafting, exact=True).value == bound
    assert law("eagle", instance, drafting, exact=True).block_efficiency == bound


@given(instance=instances(vocab_sizes=(2, 3), draft_lengths=(1, 3)), least=st.sampled_from([0, 0.3, 0.6]))
@examples(50)
def test_on_one_path_that_may_end_early_block_is_the_optimum(instance, least):
    drafting = ShapedTrees(TreeShape.paths(1, instance.draft_length), least_token=least)
    found = law("block", instance, drafting, exact=True)
    assert found.block_efficiency == tree_optimum(instance, drafting, exact=True).value
    mixed = replace(drafting, siblings=Siblings.TOP_AND_SAMPLED)
    for name, same in (("univer", mixed), ("traversal", drafting), ("balanced_multipath_block", drafting)):
        other = law(name, instance, same, exact=True)
        require_same_law(found, other)
    if not least:
        assert found.block_efficiency == single_path_optimum(instance, exact=True).value


@given(instance=instances(vocab_sizes=(2, 4), draft_lengths=(1, 1)))
@examples(50)
def test_two_siblings_one_the_likeliest_are_spechub(instance):
    """SpecHub accepts the likeliest token a with p(a), others with min(p, q / (1 - q(a))) (2411.05289)."""
    p, q = instance.exact.target.rows(0)[0], instance.exact.draft.rows(0)[0]
    drafting = ShapedTrees(TreeShape.fan_out(2), Siblings.TOP_AND_SAMPLED)
    a = int(np.argmax(q))
    others = [min(p[x], q[x] / (1 - q[a])) for x in range(len(p)) if x != a] if q[a] < 1 else []
    for name in ("top_draft", "univer"):
        assert law(name, instance, drafting, exact=True).accepted_length_pmf[1] == p[a] + sum(others)


@given(instance=TOYS, shape=st.sampled_from(SHAPES))
@examples(50)
def test_univer_is_never_below_the_walk_with_the_same_siblings(instance, shape):
    drafting = ShapedTrees(shape, Siblings.TOP_AND_SAMPLED)
    univer, walk = (law(name, instance, drafting).block_efficiency for name in ("univer", "top_draft"))
    assert univer >= walk - ROUNDING


TOY = Instance.random(3, 2, num_paths=2, seed=1)


@dataclass(frozen=True)
class Pruned:
    """Two independent children, each with a child, of which some are dropped after they were drawn."""

    keeps: Any
    siblings = Siblings.INDEPENDENT

    def law(self, instance, end=math.inf):
        trees = ShapedTrees(TreeShape.fan_out(2, 1)).law(instance, end)
        chances = instance.draft.rows(0)[0][trees.tokens[:, :2]]
        kept = np.where(self.keeps(chances), trees.parents, EMPTY)
        return replace(trees, parents=kept, num_paths=None)


def only_below_the_likelier(chances):
    """Keep both children of the root, and the child of one of them."""
    first = chances[:, 0] >= chances[:, 1]
    return np.column_stack([first | True, first | True, first, ~first])


DEFECTS = {
    "siblings without replacement": ("k_seq", ShapedTrees(TreeShape.fan_out(2, 1), Siblings.DISTINCT)),
    "top tokens judged by p/q": ("recursive_rejection", ShapedTrees(TreeShape.fan_out(2, 1), Siblings.TOP)),
    "a dynamic tree judged by p/q": ("traversal", LikeliestNodes(4)),
    "siblings of a beam counted as independent": ("k_seq", StochasticBeam(2)),
    "lengths that depend on siblings": ("lookahead_multipath_block", Pruned(only_below_the_likelier)),
    "unlikely tokens taken back": ("naive", Pruned(lambda chances: np.tile(chances > 0.3, (1, 2)))),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_law_of_siblings_is_found(defect):
    rule, drafting = DEFECTS[defect]
    assert law(rule, TOY, drafting).total_variation > 1e-4


@pytest.mark.parametrize(
    "rule", [name for name in TREE_RULES if Siblings.INDEPENDENT in accepts_of(verifiers.get(name))]
)
def test_subtrees_may_depend_on_siblings(rule):
    """Control: only the likelier of two sampled siblings goes on, as in dynamic trees of samples."""
    assert law(rule, TOY, Pruned(only_below_the_likelier)).total_variation < ROUNDING
