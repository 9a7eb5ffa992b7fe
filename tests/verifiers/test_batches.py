"""A request's verdict depends on its drafts alone: not on its batch, the array library, or the layout."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

import verifiers
from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable, call_verifier, draft_table, fresh_state
from spec_oracle.exact.draft_tree import conditional_laws
from spec_oracle.exact.drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.toy import Instance
from tests.strategies import at_night, by_day
from tests.verifiers.draftings import TREE_RULES, UNEVEN
from verifiers import EMPTY, ROOT, Drafts, Siblings, drafting_of, replayed_decisions

TREES = (
    ShapedTrees(TreeShape.stem(1, 2, 1)),
    ShapedTrees(UNEVEN, Siblings.DISTINCT),
    ShapedTrees(TreeShape.paths(2, 2), least_token=0.3),
    ShapedTrees(TreeShape.fan_out(3, 1), Siblings.TOP_AND_SAMPLED),
    LikeliestNodes(5),
    StochasticBeam(2),
)


def verdicts(verifier, drafts, uniforms):
    state = fresh_state(verifier, drafts.batch)
    verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
    parts = (verdict.num_accepted, verdict.node, verdict.next_token)
    return np.stack([np.asarray(part) for part in parts], axis=1)


def some_drafts(verifier, kind, batch, seed=0):
    """Return drafts of about ``batch`` requests, and 300 uniforms for each."""
    rng = np.random.default_rng(seed)
    drafts = some_trees(batch, rng) if kind == "trees" else some_paths(verifier, batch, rng)
    return drafts, rng.random((drafts.batch, 300))


@cache
def table_of_paths(drafting):
    return draft_table(Instance.random(4, 3, num_paths=3, seed=1, agreement=0.5), drafting)


def some_paths(verifier, batch, rng, **lengths):
    table = table_of_paths(drafting_of(verifier))
    paths = table.paths(rng.choice(len(table.law.probability), batch, p=table.law.probability))
    return Drafts.of_paths(paths.tokens, paths.draft_probs, paths.target_probs, **lengths)


@cache
def tables_of_trees():
    return [DraftTable(Instance.random(4, 2, seed=1, agreement=0.5), trees, NUMPY) for trees in TREES]


def some_trees(batch, rng):
    """Return trees of several draftings as one batch: padded to as many places."""
    tables = tables_of_trees()
    most = max(table.law.tokens.shape[1] for table in tables)

    parts = []
    for table in tables:
        one = table.drafts(rng.integers(len(table.law.tokens), size=batch // len(tables)))
        room = [(0, 0), (0, most - one.places)]
        places = np.pad(one.tokens, room), np.pad(one.parents, room, constant_values=EMPTY)
        parts.append((*places, *(np.pad(rows.dense(), [*room, (0, 0)]) for rows in (one.draft, one.target))))
    return Drafts.of_tree(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def arrays(drafts):
    return drafts.tokens, drafts.parents, drafts.draft.values, drafts.target.values


def in_torch(drafts):
    return drafts.converted(torch.from_numpy, torch.from_numpy)


def as_tree(drafts):
    rows = drafts.draft.dense(), drafts.target.dense()
    return Drafts.of_tree(drafts.tokens, drafts.parents, *rows, drafts.max_depth, drafts.max_children)


@pytest.mark.parametrize("step", [199, *at_night(1)])
def test_requests_among_a_thousand_are_what_they_are_alone(served, kind, step):
    drafts, uniforms = some_drafts(served, kind, 1000)
    together = verdicts(served, drafts, uniforms)
    alone = [
        verdicts(served, drafts.take(np.array([b])), uniforms[b : b + 1])[0]
        for b in range(0, drafts.batch, step)
    ]
    assert together[::step].tolist() == np.array(alone).tolist()
    assert len(np.unique(together, axis=0)) > 5


def test_torch_decides_as_numpy_does(served, kind):
    drafts, uniforms = some_drafts(served, kind, 600, seed=1)
    expected = verdicts(served, drafts, uniforms)
    assert verdicts(served, in_torch(drafts), torch.from_numpy(uniforms)).tolist() == expected.tolist()


def test_inputs_are_not_changed(served, kind):
    drafts, uniforms = some_drafts(served, kind, 100)
    before = drafts.converted(np.copy, np.copy)
    verdicts(served, drafts, uniforms)
    for old, new in zip(arrays(before), arrays(drafts), strict=True):
        np.testing.assert_array_equal(old, new)


def require_same_laws(rule, one, other):
    pairs = zip(*(conditional_laws(rule, drafts) for drafts in (one, other)), strict=True)
    assert max(mine.distance(theirs) for mine, theirs in pairs) < 1e-12


def test_paths_may_be_laid_out_as_a_tree(tree_rule):
    drafts, _ = some_drafts(tree_rule, "paths", 40)
    require_same_laws(tree_rule, drafts, as_tree(drafts))


def test_to_say_how_deep_and_wide_trees_are_changes_no_law(tree_rule):
    drafts, _ = some_drafts(tree_rule, "trees", 30)
    require_same_laws(tree_rule, drafts, replace(drafts, max_depth=2, max_children=4))


BY_COLUMNS = {
    "recursive_rejection",
    "recursive_rejection_distinct",
    "eagle",
    "canonical",
    "global_resolution",
}
"""These decide column by column, or by the order of columns; a tree has none for siblings of other nodes."""


@pytest.mark.parametrize("rule", [name for name in TREE_RULES if name not in BY_COLUMNS])
def test_the_layout_of_paths_changes_no_verdict(rule):
    rule = verifiers.get(rule)
    drafts, uniforms = some_drafts(rule, "paths", 200)
    one, other = (rule.verify(each, replayed_decisions(uniforms)) for each in (drafts, as_tree(drafts)))
    np.testing.assert_array_equal(one.emitted, other.emitted)


def test_ragged_paths_are_a_tree(tree_rule):
    rng = np.random.default_rng(5)
    drafts = some_paths(tree_rule, 200, rng, draft_lengths=rng.integers(4, size=(200, 3)))
    uniforms = rng.random((200, 300))
    expected = verdicts(tree_rule, drafts, uniforms)
    np.testing.assert_array_equal(verdicts(tree_rule, as_tree(drafts), uniforms), expected)
    assert len(np.unique(expected, axis=0)) > 5


@pytest.mark.parametrize(
    ("dtype", "paths"), [(torch.bfloat16, 4), *at_night((torch.bfloat16, 8), (torch.float32, 8))]
)
def test_long_drafts_of_many_paths_stay_finite_in_low_precision(scalable, dtype, paths):
    batch, length, vocab = 16, 16, 50
    rng = np.random.default_rng(7)
    target = torch.from_numpy(rng.dirichlet(np.full(vocab, 0.1), size=(batch, 1, length + 1))).to(dtype)
    draft = torch.from_numpy(rng.dirichlet(np.full(vocab, 0.1), size=(batch, 1, length))).to(dtype)
    tokens = torch.multinomial(draft.float().reshape(-1, vocab), paths, replacement=True)
    tokens = tokens.reshape(batch, length, paths).transpose(1, 2).contiguous()
    # Rows depend on the position only, so paths that share a prefix do share their rows.
    drafts = Drafts.of_paths(tokens, draft.expand(-1, paths, -1, -1), target.expand(-1, paths, -1, -1))
    found = verdicts(scalable, drafts, torch.from_numpy(rng.random((batch, 400))))
    assert (found[:, 0] >= 0).all()
    assert (found[:, 0] <= length).all()
    assert ((found[:, 2] >= 0) & (found[:, 2] < vocab)).all()


BROKEN = [*product(["numpy", "torch"], ["draft", "target"], [np.nan, np.inf])]
"""Library, rows and number; by day each of them with another one, and numbers that are none in torch."""
BY_DAY = (
    ("numpy", "draft", np.inf),
    ("torch", "target", np.nan),  # where they spread
)


@pytest.mark.parametrize(("library", "part", "broken"), by_day(BROKEN, BY_DAY))
def test_a_broken_row_affects_only_its_own_request(served, kind, part, broken, library):
    drafts, uniforms = some_drafts(served, kind, 60, seed=2)
    hurt = drafts.converted(np.copy, np.copy)
    for request, token in ((7, 0), (31, 3)):
        getattr(hurt, part).values[request, ..., token] = broken
    expected = verdicts(served, drafts, uniforms)
    with np.errstate(invalid="ignore", over="ignore"):
        if library == "torch":
            found = verdicts(served, in_torch(hurt), torch.from_numpy(uniforms))
        else:
            found = verdicts(served, hurt, uniforms)
    others = np.setdiff1d(np.arange(60), [7, 31])
    assert found[others].tolist() == expected[others].tolist()
    assert ((found[:, 0] >= 0) & (found[:, 0] <= 3) & (found[:, 2] >= 0) & (found[:, 2] < 4)).all()


class Recording:
    """Decisions replayed from uniforms, and what was asked for, request by request."""

    def __init__(self, uniforms):
        self.source, self.asked = replayed_decisions(uniforms), []

    def bernoulli(self, probability):
        self.asked.append(probability)
        return self.source.bernoulli(probability)

    def categorical(self, weights):
        self.asked.append(weights)
        return self.source.categorical(weights)


def asked(verifier, drafts, uniforms):
    decisions = Recording(uniforms)
    call_verifier(verifier, drafts, decisions, fresh_state(verifier, drafts.batch))
    return decisions.asked


def test_chances_are_the_same_to_the_last_bit_alone_and_in_a_batch(served):
    drafts, uniforms = some_drafts(served, "paths", 60, seed=4)
    together = asked(served, drafts, uniforms)
    for b in range(0, drafts.batch, 9):
        part = np.array([b])
        for one, many in zip(asked(served, drafts.take(part), uniforms[part]), together, strict=True):
            np.testing.assert_array_equal(one[0], many[b])


def test_without_drafts_a_token_of_the_target_is_emitted(tree_rule):
    drafts, _ = some_drafts(tree_rule, "trees", 30)
    empty = replace(drafts, parents=np.full_like(drafts.parents, EMPTY))
    verdict = tree_rule.verify(empty, replayed_decisions(np.full((drafts.batch, 300), 0.999)))
    assert (verdict.node == ROOT).all()
    last = [np.flatnonzero(row > 0)[-1] for row in drafts.target.row(ROOT)]
    np.testing.assert_array_equal(verdict.emitted[:, 0], last)


def test_a_place_without_a_token_of_the_vocabulary_or_without_a_parent_is_empty(tree_rule):
    """So that one broken request neither fails the batch nor emits what is no token."""
    drafts, uniforms = some_drafts(tree_rule, "trees", 30)
    leaf = drafts.places - 1 - (drafts.parents[:, ::-1] != EMPTY).argmax(axis=1)
    request = np.arange(drafts.batch)

    def with_leaf(name, value):
        array = getattr(drafts, name).copy()
        array[request, leaf] = value
        return replace(drafts, **{name: array})

    empty = verdicts(tree_rule, with_leaf("parents", EMPTY), uniforms)
    for broken in (
        *(with_leaf("tokens", token) for token in (-1, drafts.vocab_size)),
        *(with_leaf("parents", parent) for parent in (EMPTY - 1, drafts.places, leaf)),
    ):
        assert (verdicts(tree_rule, broken, uniforms) == empty).all()
