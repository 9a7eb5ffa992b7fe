"""Rules for draft trees: lossless by enumeration under all drafting they accept, and equal to path rules."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.exact.tree_drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.exact.tree_emission import tree_emission_law
from spec_oracle.optimum import single_path_optimum, tree_optimum
from spec_oracle.toy import Instance
from tests.strategies import examples, instances
from verifiers import Drafting, InvalidInputError, tree_rule
from verifiers.parts.tree_walk import TreeWalk
from verifiers.trees import EMPTY, ROOT, Siblings

ROUNDING = 1e-12
UNEVEN = TreeShape((ROOT, ROOT, 1, 1))
SHAPES = (TreeShape.paths(2, 2), TreeShape.stem(1, 2, 1), UNEVEN, TreeShape((ROOT, ROOT, ROOT, 0)))
FREE = [law for law in Siblings if law not in {Siblings.PATHS, Siblings.BEAM}]
DRAFTINGS = [
    *(ShapedTrees(shape, law) for shape in SHAPES for law in FREE),
    *(ShapedTrees(shape, Siblings.PATHS) for shape in SHAPES[:2]),
    *(ShapedTrees(SHAPES[0], law, least_token=0.3) for law in (Siblings.PATHS, Siblings.DISTINCT)),
    *(ShapedTrees(SHAPES[0], law, least_top=0.6) for law in (Siblings.PATHS, Siblings.DISTINCT)),
    *(LikeliestNodes(count) for count in (1, 3, 5)),
    *(StochasticBeam(width) for width in (1, 2)),
]
TOYS = instances(vocab_sizes=(2, 3), draft_lengths=(2, 2), max_tuples=100)
NAMES = verifiers.tree_rule_names()


def accepted(name):
    """Return a strategy for the draftings that a rule accepts."""
    return st.sampled_from([one for one in DRAFTINGS if one.siblings in tree_rule(name).accepts])


def shallow(rule, depth):
    """Return a rule that looks for no deeper nodes, nor for more siblings, than there are: it saves time."""
    return replace(rule, max_depth=depth, max_children=3) if isinstance(rule, TreeWalk) else rule


def law(name, instance, drafting, **options):
    rule = shallow(tree_rule(name), instance.draft_length)
    return tree_emission_law(rule, instance, drafting, **options)


def require_same(one, other, tolerance=0):
    for mine, theirs in zip(one.masses, other.masses, strict=True):
        assert (abs(mine - theirs) <= tolerance).all()


@pytest.mark.parametrize("rule", NAMES)
@given(data=st.data(), instance=TOYS)
@examples(50)
def test_lossless_and_never_above_the_optimum(rule, data, instance):
    drafting = data.draw(accepted(rule))
    found = law(rule, instance, drafting)
    assert found.total_variation < ROUNDING
    assert found.block_efficiency <= tree_optimum(instance, drafting).value + 1e-9


@pytest.mark.parametrize("rule", NAMES)
@given(data=st.data(), instance=instances(vocab_sizes=(2, 3), draft_lengths=(2, 2), max_tuples=20))
@examples(15)
def test_lossless_in_rationals(rule, data, instance):
    assert law(rule, instance, data.draw(accepted(rule)), exact=True).total_variation == 0


@pytest.mark.parametrize("rule", NAMES)
@given(
    data=st.data(), instance=instances(vocab_sizes=(2, 3), draft_lengths=(2, 2), max_tuples=100, dyadic=True)
)
@examples(15)
def test_numpy_and_torch_give_one_law(rule, data, instance):
    drafting = data.draw(accepted(rule))
    one, other = law(rule, instance, drafting), law(rule, instance, drafting, array="torch")
    require_same(one, other, ROUNDING)


@pytest.mark.parametrize("rule", [name for name in NAMES if name in verifiers.names()])
@given(instance=instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3), max_tuples=81))
@examples(20)
def test_on_paths_these_are_the_path_rules(rule, instance):
    path_rule = verifiers.get(rule)
    expected = emission_law(path_rule, instance, merged=False)
    shape = TreeShape.paths(expected.instance.num_paths, instance.draft_length)
    siblings = Siblings(verifiers.drafting_of(path_rule).value)
    found = law(rule, expected.instance, ShapedTrees(shape, siblings))
    require_same(found, expected, ROUNDING)


@pytest.mark.parametrize("rule", ["traversal", "lookahead_multipath_block", "recursive_rejection_distinct"])
@given(instance=instances(vocab_sizes=(2, 2), draft_lengths=(2, 2), num_paths=(2, 2)))
@examples(20)
def test_on_paths_these_are_the_path_rules_in_rationals(rule, instance):
    path_rule = verifiers.get(rule)
    siblings = Siblings(verifiers.drafting_of(path_rule).value)
    expected = emission_law(path_rule, instance, exact=True, merged=False)
    found = law(rule, instance, ShapedTrees(TreeShape.paths(2, 2), siblings), exact=True)
    require_same(found, expected)


@given(instance=TOYS, drafting=st.sampled_from(DRAFTINGS))
@examples(50)
def test_eagle_samples_the_target_one_sibling_at_a_time(instance, drafting):
    eagle, nss = (law(name, instance, drafting, exact=True) for name in ("eagle", "nss"))
    require_same(eagle, nss)


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
        require_same(found, other)
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


@pytest.mark.parametrize("rule", ["traversal", "balanced_multipath_block", "global_resolution", "k_seq"])
@given(instance=TOYS)
@examples(20)
def test_rows_that_do_not_see_the_drafted_tokens(rule, instance):
    """A drafter of whole blocks has one row for each position: a special case of any draft model."""
    first = [np.repeat(level[:1], len(level), axis=0) for level in instance.draft.levels]
    block = replace(instance, draft=replace(instance.draft, levels=tuple(first)))
    assert law(rule, block, ShapedTrees(SHAPES[0])).total_variation < ROUNDING


TOY = Instance.random(3, 2, num_paths=2, seed=1)


@dataclass(frozen=True)
class Pruned:
    """Two independent children, each with a child, of which some are dropped after they were drawn."""

    keeps: Any
    siblings = Siblings.INDEPENDENT

    def law(self, instance):
        trees = ShapedTrees(TreeShape.fan_out(2, 1)).law(instance)
        chances = instance.draft.rows(0)[0][trees.tokens[:, :2]]
        return replace(trees, parents=np.where(self.keeps(chances), trees.parents, EMPTY))


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


@pytest.mark.parametrize("rule", [name for name in NAMES if Siblings.INDEPENDENT in tree_rule(name).accepts])
def test_what_lies_below_a_node_may_depend_on_its_siblings(rule):
    """Control: only the likelier of two sampled siblings goes on, as in dynamic trees of samples."""
    assert law(rule, TOY, Pruned(only_below_the_likelier)).total_variation < ROUNDING


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_low_precision_inputs_are_computed_in_float32(rule, dtype):
    toy = Instance.random(3, 2, seed=5, agreement=0.4).rounded(64)
    siblings = Siblings.TOP_AND_SAMPLED if rule in {"univer", "top_draft"} else Siblings.PATHS
    found = law(rule, toy, ShapedTrees(SHAPES[1], siblings), array="torch", dtype=dtype)
    assert found.total_variation < 1e-6


def test_a_walk_without_a_greatest_depth_has_the_same_law():
    drafting = ShapedTrees(UNEVEN)
    same, found = (
        tree_emission_law(rule, TOY, drafting) for rule in (tree_rule("nss"), shallow(tree_rule("nss"), 2))
    )
    require_same(found, same)


def test_a_walk_that_ends_at_a_depth_is_lossless():
    found = tree_emission_law(shallow(tree_rule("k_seq"), 1), TOY, ShapedTrees(SHAPES[0]))
    assert found.total_variation < ROUNDING
    assert found.accepted_length_pmf[2] == 0


def test_unknown_names_are_refused():
    with pytest.raises(InvalidInputError, match="unknown tree rule"):
        tree_rule("no such rule")
    assert all(isinstance(tree_rule(name), TreeWalk) for name in ("nss", "eagle"))
    assert {Siblings(drafting.value) for drafting in Drafting} < set(Siblings)
