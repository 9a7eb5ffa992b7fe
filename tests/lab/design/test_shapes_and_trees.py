"""Shapes for a budget, trees that are chosen and not sampled, and bounds."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from lab.design import fixed
from lab.design.bounds import bound_for, drafted_counts, passing_bound
from lab.design.combinations import COMBINATIONS
from lab.design.figures import DRAFTING
from lab.design.models import Models, joint
from lab.design.shapes import is_within, shapes_for, single_path, too_deep
from lab.design.walks import steps_of
from spec_oracle.efficiency.trees import FanOuts
from spec_oracle.exact.drafting import ShapedTrees, TreeShape, draft_paths, shaped_law
from spec_oracle.optimum import multi_path_optimum, single_path_optimum, tree_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings

TOY = Instance.random(3, 2, seed=2).rounded(12)


def test_shapes_fit_the_budget_and_none_is_part_of_another():
    for budget, depth, widest in itertools.product((1, 5, 12), (1, 3), (None, 2)):
        shapes = shapes_for(budget, depth, widest)
        assert shapes
        for shape in shapes:
            assert shape.tokens <= budget
            assert shape.levels <= depth
            assert max(shape.fan_outs) <= (widest or budget)
            assert not any(is_within(shape, other) for other in shapes if other != shape)


def test_shapes_in_words():
    words = {
        (4, 1): "K = 4, L = 2",
        (1, 1, 3): "delay 2, K = 3, L = 1",
        (2, 2): "fan-outs 2, 2",
        (1,): "K = 1, L = 1",
    }
    assert {fan_outs: str(FanOuts(fan_outs)) for fan_outs in words} == words
    assert FanOuts((2, 3, 1)).tokens == 2 + 6 + 6
    assert single_path(8, 3).tokens == 3
    assert too_deep(8, 4) == "K = 1, L = 8"
    assert not too_deep(4, 4)


def walked(models, nodes):
    """Return the tokens of a walk with samples of the target down a tree, by all texts of the target."""
    law = joint(models.target)[-1]
    vocab, length, tokens = models.vocab_size, models.depth, 0
    for index, text in enumerate(itertools.product(range(vocab), repeat=length)):
        places = [(d, int("".join(map(str, text[: d + 1])), vocab)) for d in range(length)]
        accepted = next((d for d, place in enumerate(places) if place not in nodes), length)
        tokens += law[index] * (accepted + 1)
    return tokens


@pytest.mark.parametrize("budget", [1, 3, 7])
def test_a_tree_without_random_tokens_emits_the_probability_of_its_nodes(budget):
    models = Models.of(TOY, exact=True)
    for rows in (models.draft, models.target):
        nodes = fixed.likeliest_nodes(rows, budget)
        assert len(nodes) == budget
        assert all(d == 0 or (d - 1, index // 3) in nodes for d, index in nodes)
        assert fixed.places_tokens(joint(models.target), nodes) == walked(models, nodes)


def test_the_likeliest_prefixes_of_the_target_are_the_best_of_all_trees():
    models = Models.of(TOY, exact=True)
    values = joint(models.target)
    best = fixed.places_tokens(values, fixed.likeliest_nodes(models.target, 3))
    every = [(0, i) for i in range(3)] + [(1, i) for i in range(9)]
    for nodes in itertools.combinations(every, 3):
        if all(d == 0 or (0, i // 3) in nodes for d, i in nodes):
            assert fixed.places_tokens(values, nodes) <= best


def test_ranks_are_those_of_the_draft():
    values = fixed.rank_values(Models.of(TOY, exact=True))
    root = np.argsort(-TOY.draft.conditional(()), kind="stable")
    below = np.argsort(-TOY.draft.conditional((root[1],)), kind="stable")
    assert values[1][1 * 3 + 2] == TOY.target.probability((root[1], below[2]))
    assert [sum(level) for level in values] == [1, 1]
    never = Instance.context_free(["1/2", "1/2"], [1, 0], draft_length=1)
    assert fixed.rank_values(Models.of(never, exact=True))[0].tolist() == [Fraction(1, 2), 0]


def test_slots_of_recursive_rejection_are_those_of_the_whole_shape():
    models = Models.of(TOY, exact=True)
    steps = steps_of("recursive_rejection_distinct", Siblings.DISTINCT, models)
    values = fixed.slot_values(models, steps, 2)
    places = [(0, 0), (0, 1), *((1, index) for index in range(4))]
    (walk,) = (one.figure(models) for one in COMBINATIONS if one.rule == "recursive_rejection_distinct")
    assert fixed.places_tokens(values, places) == walk(FanOuts((2, 2)))


def test_the_best_places_take_parents_first_and_in_order_earlier_siblings():
    values = [np.array([0.5, 0.3]), np.array([0.4, 0.01, 0.2, 0.1])]
    assert fixed.best_places(values, 4, in_order=True) == [(0, 0), (1, 0), (0, 1), (1, 2)]
    values[1][3] = 0.25
    assert fixed.best_places(values, 4, in_order=False) == [(0, 0), (1, 0), (0, 1), (1, 3)]


@pytest.mark.parametrize("drafting", DRAFTING)
def test_numbers_of_drafts_are_counted(drafting):
    row = np.array([[Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]])
    law = shaped_law([row], draft_paths(2, 1, drafting))
    counts = drafted_counts(row, 2, drafting)[0]
    for token, count in itertools.product(range(3), range(3)):
        here = (law.tokens == token).sum(axis=1) == count
        assert counts[token, count] == law.probability[here].sum()


@pytest.mark.parametrize("drafting", DRAFTING)
def test_the_bound_of_a_tree_is_at_least_its_optimum(drafting):
    toy = Instance.random(2, 2, seed=2, concentration=3.0).rounded(12)
    models = Models.of(toy, exact=True)
    for fan_outs in ((1, 2), (2, 2)):
        trees = ShapedTrees(TreeShape.fan_out(*fan_outs), drafting)
        best = tree_optimum(toy, trees, exact=True).value
        assert passing_bound(models, FanOuts(fan_outs), drafting) >= best


def test_tree_bounds_hold():
    models, exact = Models.of(TOY), Models.of(TOY, exact=True)
    assert (
        passing_bound(exact, FanOuts((1, 1)), Siblings.INDEPENDENT)
        == single_path_optimum(TOY, exact=True).value
    )
    paths = bound_for(TOY, models, FanOuts((2, 1)), Siblings.INDEPENDENT)
    best = multi_path_optimum(TOY.with_paths(2)).value
    assert best - 1e-9 <= paths.tokens <= best + 1e-6
    assert passing_bound(models, FanOuts((2, 1)), Siblings.INDEPENDENT) >= best - 1e-12
    distinct = multi_path_optimum(TOY.with_paths(2), drafting=Siblings.DISTINCT).value
    loose = bound_for(TOY, models, FanOuts((2, 1)), Siblings.DISTINCT)
    assert loose.gap is None
    assert loose.tokens >= distinct - 1e-12
