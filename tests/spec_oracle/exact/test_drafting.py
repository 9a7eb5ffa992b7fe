"""Draft trees: their shapes, and their laws against ones found in other ways."""

from collections import defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.drafting import (
    LikeliestNodes,
    ShapedTrees,
    StochasticBeam,
    TreeShape,
    draft_paths,
    shaped_law,
)
from spec_oracle.toy import Instance, ToyModel
from tests.strategies import examples, instances
from verifiers import ROOT, Drafts, Siblings

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
LEVELS = [np.array([[HALF, QUARTER, QUARTER]], dtype=object)]


def law_of_paths(levels, num_paths, siblings):
    """Return the probability of each tuple of paths."""
    law = shaped_law(levels, draft_paths(num_paths, len(levels), siblings))
    paths = law.tokens.reshape(-1, len(levels), num_paths).transpose(0, 2, 1)
    return {tuple(map(tuple, each)): mass for each, mass in zip(paths.tolist(), law.probability, strict=True)}


def test_independent_paths_multiply():
    law = law_of_paths(LEVELS, 2, Siblings.INDEPENDENT)
    assert law[(0,), (0,)] == QUARTER
    assert law[(1,), (2,)] == QUARTER * QUARTER
    assert sum(law.values()) == 1


def test_distinct_paths_never_repeat_until_the_support_is_used_up():
    law = law_of_paths(LEVELS, 3, Siblings.DISTINCT)
    assert all(len(set(paths)) == 3 for paths in law)
    assert law[(0,), (1,), (2,)] == HALF * HALF
    four = law_of_paths(LEVELS, 4, Siblings.DISTINCT)
    assert all(len(set(paths)) == 3 for paths in four)
    assert sum(four.values()) == 1


def test_top_paths_are_certain_and_the_last_is_drawn_from_the_rest():
    law = law_of_paths(LEVELS, 2, Siblings.TOP_AND_SAMPLED)
    assert law == {((0,), (1,)): HALF, ((0,), (2,)): HALF}
    everything = law_of_paths(LEVELS, 4, Siblings.TOP_AND_SAMPLED)
    assert everything == {
        ((0,), (1,), (2,), (0,)): HALF,
        ((0,), (1,), (2,), (1,)): QUARTER,
        ((0,), (1,), (2,), (2,)): QUARTER,
    }


def test_paths_that_part_are_alone_from_there_on():
    levels = [np.array([[HALF, HALF]], dtype=object), np.array([[1, 0], [HALF, HALF]], dtype=object)]
    law = law_of_paths(levels, 2, Siblings.DISTINCT)
    assert law[(0, 0), (1, 0)] == QUARTER
    assert sum(law.values()) == 1


def test_too_many_tuples_are_refused_with_the_sizes():
    with pytest.raises(InvalidInputError, match="vocab_size 3, draft_length 1, num_paths 20"):
        law_of_paths(LEVELS, 20, Siblings.INDEPENDENT)


POSITIVE = Instance(
    ToyModel.context_free(["1/2", "1/2"], order=2),
    ToyModel.from_conditionals({"": ["1/4", "3/4"], "0": ["1/2", "1/2"], "1": ["1/8", "7/8"]}),
    draft_length=2,
)
TOY = Instance.random(3, 2, num_paths=2, seed=1).rounded(12)
SMALL = instances(vocab_sizes=(2, 3), draft_lengths=(1, 2), num_paths=(1, 3), max_tuples=81)


def by_nodes(law):
    """Return the mass of each set of nodes."""
    trees = defaultdict(int)
    for nodes, mass in zip(law.nodes.tolist(), law.probability, strict=True):
        trees[frozenset(nodes)] += mass
    return trees


def test_tree_shapes_have_their_parents():
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


@given(instance=SMALL, siblings=st.sampled_from([law for law in Siblings if law is not Siblings.BEAM]))
@examples(60)
def test_paths_are_trees_with_the_same_rows(instance, siblings):
    table = DraftTable(
        instance.floats, draft_paths(instance.num_paths, instance.draft_length, siblings), NUMPY
    )
    every = np.arange(len(table.law.tokens))
    found, paths = table.drafts(every), table.paths(every)
    expected = Drafts.of_paths(*paths.arrays)
    assert found.num_paths == expected.num_paths == instance.num_paths
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.parents, expected.parents)
    whole = 1 + np.arange(found.places - instance.num_paths)  # the draft has no row after the last tokens
    np.testing.assert_array_equal(found.target.dense(), expected.target.dense())
    np.testing.assert_array_equal(found.draft.dense()[:, whole], expected.draft.dense()[:, whole])


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
