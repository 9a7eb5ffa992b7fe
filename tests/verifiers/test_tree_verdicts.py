"""What tree rules return: alike alone, in a batch and in torch, with inputs kept; trees of ragged paths."""

from dataclasses import replace

import numpy as np
import pytest

import verifiers
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.tree_drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.exact.tree_emission import TreeTable
from spec_oracle.toy import Instance
from verifiers import Drafts, InvalidInputError, replayed_decisions, tree_rule
from verifiers.arrays import map_fields
from verifiers.trees import EMPTY, ROOT, Siblings, TreeDrafts, TreeVerdict, of_paths

NAMES = verifiers.tree_rule_names()
TOY = Instance.random(3, 2, num_paths=2, seed=1)
DRAFTINGS = (
    ShapedTrees(TreeShape.stem(1, 2, 1)),
    ShapedTrees(TreeShape((ROOT, ROOT, 1, 1)), Siblings.DISTINCT),
    ShapedTrees(TreeShape.paths(2, 2), least_token=0.3),
    ShapedTrees(TreeShape.fan_out(3, 1), Siblings.TOP_AND_SAMPLED),
    LikeliestNodes(5),
    StochasticBeam(2),
)


def batch(per_law=5):
    """Return trees of several draftings as one batch: padded to as many places."""
    parts = []
    for drafting in DRAFTINGS:
        table = TreeTable(TOY, drafting, NUMPY)
        parts.append(table.drafts(np.arange(min(per_law, len(table.law.probability)))))
    places = max(part.places for part in parts)

    def padded(array, value, extra):
        return np.pad(array, [(0, 0), (0, extra), *[(0, 0)] * (array.ndim - 2)], constant_values=value)

    fields = {"tokens": 0, "parents": EMPTY, "draft_probs": 0.5, "target_probs": 0.5}
    return TreeDrafts(
        *(
            np.concatenate([padded(getattr(part, name), value, places - part.places) for part in parts])
            for name, value in fields.items()
        )
    )


@pytest.mark.parametrize("rule", NAMES)
def test_a_request_is_verified_alike_alone_in_a_batch_and_in_torch(rule):
    import torch

    drafts = batch()
    uniforms = np.random.default_rng(3).random((drafts.batch, 400))
    whole = tree_rule(rule).verify_tree(drafts, replayed_decisions(uniforms))
    in_torch = tree_rule(rule).verify_tree(
        map_fields(torch.as_tensor, drafts), replayed_decisions(torch.as_tensor(uniforms))
    )
    np.testing.assert_array_equal(whole.emitted, in_torch.emitted.numpy())
    np.testing.assert_array_equal(whole.node, in_torch.node.numpy())
    for b in range(drafts.batch):
        request = map_fields(lambda array, b=b: array[b : b + 1], drafts)
        alone = tree_rule(rule).verify_tree(request, replayed_decisions(uniforms[b : b + 1]))
        np.testing.assert_array_equal(alone.emitted, whole.emitted[b : b + 1])


@pytest.mark.parametrize("rule", NAMES)
def test_inputs_are_kept_and_no_drafts_are_a_target_sample(rule):
    drafts = batch()
    empty = replace(drafts, parents=np.full_like(drafts.parents, EMPTY))
    before = map_fields(np.copy, empty)
    verdict = tree_rule(rule).verify_tree(empty, replayed_decisions(np.full((drafts.batch, 400), 0.999)))
    assert (verdict.node == ROOT).all()
    last = [np.flatnonzero(row > 0)[-1] for row in drafts.target_probs[:, 0]]
    np.testing.assert_array_equal(verdict.emitted[:, 0], last)
    for name in ("tokens", "parents", "draft_probs", "target_probs"):
        np.testing.assert_array_equal(getattr(empty, name), getattr(before, name))


def test_ragged_paths_are_a_tree():
    tokens = np.array([[[1, 0, 2], [1, 0, 2], [2, 2, 2]]])
    drafts = Drafts(tokens, np.full((1, 3, 3, 3), 1 / 3), np.full((1, 3, 4, 3), 1 / 3))
    tree = of_paths(drafts, np.array([[1, 3, 0]]))
    e = EMPTY
    assert tree.parents.tolist() == [[ROOT, ROOT, e, e, 0, e, e, 4, e]]
    assert of_paths(drafts).parents.tolist() == [[ROOT, ROOT, ROOT, 0, 0, 2, 3, 3, 5]]
    verdict = TreeVerdict(np.array([7]), np.array([0]), tree)
    assert verdict.emitted.tolist() == [[1, 0, 2, 0, *[-1] * 6]]
    assert TreeVerdict(np.array([ROOT]), np.array([2]), tree).emitted[0, :2].tolist() == [2, -1]


@pytest.mark.parametrize("rule", NAMES)
def test_a_place_without_a_token_of_the_vocabulary_or_without_a_parent_is_empty(rule):
    """So that one broken request neither fails the batch nor emits what is no token."""
    drafts, uniforms = batch(), np.random.default_rng(3).random((batch().batch, 512))
    leaf = drafts.places - 1 - (drafts.parents[:, ::-1] != EMPTY).argmax(axis=1)
    request = np.arange(drafts.batch)

    def with_leaf(**values):
        ((name, value),) = values.items()
        array = getattr(drafts, name).copy()
        array[request, leaf] = value
        return replace(drafts, **{name: array})

    empty = tree_rule(rule).verify_tree(with_leaf(parents=EMPTY), replayed_decisions(uniforms))
    for broken in (
        *(with_leaf(tokens=token) for token in (-1, drafts.vocab_size)),
        *(with_leaf(parents=parent) for parent in (EMPTY - 1, drafts.places, leaf)),
    ):
        verdict = tree_rule(rule).verify_tree(broken, replayed_decisions(uniforms))
        assert (verdict.emitted == empty.emitted).all()


def test_a_tree_without_a_place_is_refused_with_what_to_do():
    rows = np.full((2, 1, 3), 1 / 3)
    with pytest.raises(InvalidInputError, match=r"^tokens: expected at least one place, .* parent EMPTY"):
        TreeDrafts(np.zeros((2, 0), dtype=int), np.zeros((2, 0), dtype=int), rows, rows)
