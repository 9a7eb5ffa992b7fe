"""Draft trees: their shapes, and their distributions against ones found in other ways."""

from collections import defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import verifiers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import VerdictError
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.drafting import draft_law
from spec_oracle.exact.tree_drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.exact.tree_emission import TreeTable, tree_conditional_laws, tree_emission_law
from spec_oracle.optimum import check_certificate, multi_path_optimum, tree_optimum
from spec_oracle.toy import Instance, ToyModel
from tests.strategies import examples, instances
from verifiers import Drafting, Drafts, tree_rule
from verifiers.trees import EMPTY, ROOT, Siblings, TreeVerdict, of_paths

POSITIVE = Instance(
    ToyModel.context_free(["1/2", "1/2"], order=2),
    ToyModel.from_conditionals({"": ["1/4", "3/4"], "0": ["1/2", "1/2"], "1": ["1/8", "7/8"]}),
    draft_length=2,
)
TOY = Instance.random(3, 2, num_paths=2, seed=1).rounded(12)
SMALL = instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3), max_tuples=81)


def by_places(tokens, parents, probability):
    """Return the mass of each tree as it was drawn."""
    trees = defaultdict(int)
    for tree, mass in zip(np.column_stack([tokens, parents]).tolist(), probability, strict=True):
        trees[tuple(tree)] += mass
    return trees


def by_nodes(law):
    """Return the mass of each set of nodes."""
    trees = defaultdict(int)
    for nodes, mass in zip(law.nodes.tolist(), law.probability, strict=True):
        trees[frozenset(nodes)] += mass
    return trees


def test_shapes():
    assert TreeShape.fan_out(2, 2).parents == (ROOT, ROOT, 0, 0, 1, 1)
    assert TreeShape.paths(2, 3).parents == (ROOT, ROOT, 0, 1, 2, 3)
    assert TreeShape.stem(2, 2, 2).parents == (ROOT, 0, 1, 1, 2, 3)
    assert TreeShape.stem(2, 2, 2).depths == (1, 2, 3, 3, 4, 4)
    assert TreeShape.stem(0, 2, 2) == TreeShape.paths(2, 2)


@pytest.mark.parametrize("parents", [(0,), (-2,), (ROOT, 0, ROOT)])
def test_impossible_shapes_are_refused(parents):
    with pytest.raises(InvalidInputError, match="parents: "):
        TreeShape(parents)


@pytest.mark.parametrize("siblings", [Siblings.PATHS, Siblings.BEAM])
def test_siblings_that_do_not_fit_the_shape_are_refused(siblings):
    with pytest.raises(InvalidInputError, match="does not fit TreeShape"):
        ShapedTrees(TreeShape.fan_out(2, 2), siblings)


@given(instance=SMALL, drafting=st.sampled_from(Drafting))
@examples(60)
def test_paths_are_trees(instance, drafting):
    instance = instance.exact
    rows = [instance.draft.rows(depth) for depth in range(instance.draft_length)]
    paths = draft_law(rows, instance.num_paths, drafting)
    none = np.zeros((*paths.tokens.shape, instance.vocab_size))
    tree = of_paths(Drafts(paths.tokens, none, np.concatenate([none, none[:, :, :1]], axis=2)))
    shape = TreeShape.paths(instance.num_paths, instance.draft_length)
    law = ShapedTrees(shape, Siblings(drafting.value)).law(instance)
    expected = by_places(tree.tokens, tree.parents, paths.probability)
    assert by_places(law.tokens, law.parents, law.probability) == expected


@given(
    instance=SMALL,
    siblings=st.sampled_from([law for law in Siblings if law not in {Siblings.PATHS, Siblings.BEAM}]),
)
@examples(60)
def test_probabilities_sum_to_one_and_parents_come_first(instance, siblings):
    drafting = ShapedTrees(TreeShape.fan_out(2, *[1] * (instance.draft_length - 1)), siblings, Fraction(1, 3))
    law = drafting.law(instance.exact)
    assert law.probability.sum() == 1
    assert (law.parents < np.arange(law.parents.shape[1])).all()


def test_a_path_ends_after_an_unlikely_token_and_before_a_doubtful_one():
    unlikely = ShapedTrees(TreeShape.paths(1, 2), least_token=Fraction(1, 2)).law(POSITIVE)
    assert by_nodes(unlikely) == {
        frozenset({0, 1}): Fraction(1, 4),
        frozenset({0, 2, 5}): Fraction(3, 32),
        frozenset({0, 2, 6}): Fraction(21, 32),
    }
    doubtful = ShapedTrees(TreeShape.paths(1, 2), least_top=Fraction(3, 5)).law(POSITIVE)
    assert by_nodes(doubtful) == by_nodes(unlikely)
    silent = ShapedTrees(TreeShape.paths(1, 2), least_top=Fraction(4, 5)).law(POSITIVE)
    assert by_nodes(silent) == {frozenset({0}): 1}


def test_a_dynamic_tree_has_the_likeliest_contexts():
    law = LikeliestNodes(4).law(TOY.exact)
    mass = {(): 1}
    for length in (1, 2):
        for context in product(range(3), repeat=length):
            mass[context] = TOY.exact.draft.probability(context)
    floor = sorted(mass.values(), reverse=True)[4]
    contexts = [(), *product(range(3)), *product(range(3), repeat=2)]
    assert len(law.probability) == 1
    assert all(mass[contexts[node]] >= floor for node in law.nodes[0])
    assert len(set(law.nodes[0].tolist())) == 5


@pytest.mark.parametrize("width", [1, 2])
def test_a_stochastic_beam_is_the_head_of_a_random_order_of_all_paths(width):
    """All orders of all paths, each with its chance to be drawn without replacement."""
    paths = list(product(range(2), repeat=2))
    chances = [POSITIVE.draft.probability(path) for path in paths]
    expected = defaultdict(int)
    for order in permutations(range(4)):
        mass, left = Fraction(1), Fraction(1)
        for path in order:
            mass, left = mass * chances[path] / left, left - chances[path]
        firsts = list(dict.fromkeys(paths[path][0] for path in order))[:width]
        tree = {0, *(1 + token for token in firsts), *(3 + path for path in order[:width])}
        expected[frozenset(tree)] += mass
    assert by_nodes(StochasticBeam(width).law(POSITIVE)) == expected


@given(instance=SMALL, drafting=st.sampled_from(Drafting))
@examples(30)
def test_over_paths_the_tree_optimum_is_the_path_optimum(instance, drafting):
    shape = TreeShape.paths(instance.num_paths, instance.draft_length)
    trees = ShapedTrees(shape, Siblings(drafting.value))
    optimum = tree_optimum(instance, trees, exact=True)
    assert optimum.value == multi_path_optimum(instance, drafting=drafting, exact=True).value
    assert check_certificate(instance, optimum.certificate) == 0


@pytest.mark.parametrize(
    "drafting",
    [
        ShapedTrees(TreeShape((ROOT, ROOT, 1, 1))),
        ShapedTrees(TreeShape.paths(2, 2), Siblings.DISTINCT, least_token=0.4),
        LikeliestNodes(3),
        StochasticBeam(2),
    ],
)
def test_certificates_over_trees_of_any_shape(drafting):
    optimum = tree_optimum(TOY, drafting, exact=True)
    assert check_certificate(TOY, optimum.certificate) == 0
    assert 1 < optimum.value < 3


def test_what_is_no_tree_verifier_or_no_verdict_is_refused():
    drafting = ShapedTrees(TreeShape.paths(1, 2))

    class Stops:
        def __init__(self, node):
            self.node = node

        def verify_tree(self, drafts, decisions):
            return TreeVerdict(drafts.tokens[:, 0] * 0 + self.node, drafts.tokens[:, 0] * 0, drafts)

    with pytest.raises(InvalidInputError, match="verifier: expected an object with a method verify_tree"):
        tree_emission_law(verifiers.get("nss"), TOY, drafting)
    for node in (EMPTY, 2):
        with pytest.raises(VerdictError, match="node: "):
            tree_emission_law(Stops(node), TOY, drafting)
    with pytest.raises(InvalidInputError, match="shape: 3 tokens deep, the instance has draft_length 2"):
        tree_emission_law(Stops(ROOT), TOY, ShapedTrees(TreeShape.paths(1, 3)))


@pytest.mark.parametrize("rule", ["traversal", "recursive_rejection_distinct", "eagle"])
def test_what_is_emitted_after_each_tree_adds_up_to_the_law_of_a_call(rule):
    """A walk looks at its tokens, a climb does not: with its last decision open, or represented by few."""
    toy, drafting = (
        Instance.random(12, 2, seed=3).floats,
        ShapedTrees(TreeShape((ROOT, ROOT)), Siblings.DISTINCT),
    )
    table = TreeTable(toy, drafting, NUMPY)
    drafts = table.drafts(np.arange(len(table.law.probability)))
    found = [np.zeros((toy.vocab_size,) * length) for length in (1, 2, 3)]
    for mass, law in zip(table.law.probability, tree_conditional_laws(tree_rule(rule), drafts), strict=True):
        for prefix, masses in law.leaves.items():
            found[len(prefix)][prefix] += mass * masses
    expected = tree_emission_law(tree_rule(rule), toy, drafting).masses
    for mine, theirs in zip(found, expected, strict=True):
        assert np.allclose(mine.reshape(-1), theirs, rtol=0, atol=1e-12)
