"""Drafts refuse shapes that disagree, copy no row of paths, and say what old code must change; verdicts."""

import numpy as np
import pytest

import verifiers
from verifiers import (
    EMPTY,
    ROOT,
    Drafts,
    InvalidInputError,
    Siblings,
    Traits,
    Verdict,
    accepts_of,
    drafting_of,
    traits_of,
)


def arrays(batch=2, paths=1, length=3, vocab=4):
    return (
        np.zeros((batch, paths, length), dtype=int),
        np.full((batch, paths, length, vocab), 1 / vocab),
        np.full((batch, paths, length + 1, vocab), 1 / vocab),
    )


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (lambda t, q, p: (t[0], q, p), "tokens"),
        (lambda t, q, p: (t, q[0], p), "draft_probs"),
        (lambda t, q, p: (t, q[:, :, :-1], p), "draft_probs"),
        (lambda t, q, p: (t, q, p[:, :, :-1]), "target_probs"),
        (lambda t, q, p: (t, q, p[..., :-1]), "target_probs"),
    ],
)
def test_paths_name_the_argument_whose_shape_disagrees(change, argument):
    with pytest.raises(InvalidInputError, match=f"^{argument}: expected shape"):
        Drafts.of_paths(*change(*arrays()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, a, q, p: (t[0], a, q, p), r"tokens: expected shape \[B, N\]"),
        (lambda t, a, q, p: (t, a[:, 1:], q, p), r"parents: expected shape \(2, 3\) to match tokens"),
        (lambda t, a, q, p: (t, a, q[:, 1:], p), r"draft_probs: expected shape \[2, 4, V\]"),
        (lambda t, a, q, p: (t, a, q, p[:1]), r"target_probs: expected shape \[2, 4, V\]"),
        (lambda t, a, q, p: (t, a, q[..., 1:], p), "draft_probs: .* to match target_probs"),
        (
            lambda t, a, q, p: (t[:, :0], a[:, :0], q[:, :1], p[:, :1]),
            "tokens: expected at least one place, .* parent EMPTY",
        ),
    ],
)
def test_trees_name_the_argument_whose_shape_disagrees(change, message):
    rows = np.full((2, 4, 3), 1 / 3)
    with pytest.raises(InvalidInputError, match=f"^{message}"):
        Drafts.of_tree(*change(np.zeros((2, 3), dtype=int), np.array([[ROOT, 0, 0]] * 2), rows, rows))


def test_drafts_know_their_sizes():
    drafts = Drafts.of_paths(*arrays(batch=2, paths=3, length=4, vocab=5))
    assert (drafts.batch, drafts.num_paths, drafts.places, drafts.vocab_size) == (2, 3, 12, 5)
    assert (drafts.depth, drafts.fan_out) == (4, 3)
    assert (drafts.paths.num_paths, drafts.paths.draft_length) == (3, 4)


@pytest.mark.parametrize("paths", [1, 3])
def test_rows_of_paths_are_views_of_the_arrays(paths):
    tokens, draft, target = arrays(paths=paths)
    drafts = Drafts.of_paths(tokens, draft, target)
    for place in (ROOT, *range(drafts.places)):
        assert np.shares_memory(drafts.draft.row(place), draft)
        assert np.shares_memory(drafts.target.row(place), target)
    assert np.shares_memory(drafts.paths.draft_probs, draft)
    assert np.shares_memory(drafts.paths.target_probs, target)


def test_both_layouts_have_the_same_rows_and_entries():
    rng = np.random.default_rng(0)
    tokens, draft, target = (
        rng.integers(4, size=(2, 3, 2)),
        rng.random((2, 3, 2, 4)),
        rng.random((2, 3, 3, 4)),
    )
    draft[:, 1:, 0], target[:, 1:, 0] = draft[:, :1, 0], target[:, :1, 0]  # one root
    paths = Drafts.of_paths(tokens, draft, target)
    tree = Drafts.of_tree(paths.tokens, paths.parents, paths.draft.dense(), paths.target.dense())
    place, token = rng.integers(ROOT, 3, size=(2, 2)), rng.integers(4, size=(2, 2))
    for one, other in ((paths.draft, tree.draft), (paths.target, tree.target)):
        for at in (ROOT, 2, place[:, 0]):
            np.testing.assert_array_equal(one.row(at), other.row(at))
        np.testing.assert_array_equal(one.entries(place, token), other.entries(place, token))
        np.testing.assert_array_equal(one.take(np.array([1])).dense(), other.dense()[1:])


def test_ragged_paths_are_a_tree():
    tokens = np.array([[[1, 0, 2], [1, 0, 2], [2, 2, 2]]])
    rows = np.full((1, 3, 4, 3), 1 / 3)
    tree = Drafts.of_paths(tokens, rows[:, :, :3], rows, draft_lengths=np.array([[1, 3, 0]]))
    e = EMPTY
    assert tree.parents.tolist() == [[ROOT, ROOT, e, e, 0, e, e, 4, e]]
    full = Drafts.of_paths(tokens, rows[:, :, :3], rows)
    assert full.parents.tolist() == [[ROOT, ROOT, ROOT, 0, 0, 2, 3, 3, 5]]
    assert (tree.depth, tree.fan_out, tree.num_paths, full.num_paths) == (3, 3, None, 3)
    assert Verdict(np.array([7]), np.array([0]), tree).emitted.tolist() == [[1, 0, 2, 0]]
    assert Verdict(np.array([ROOT]), np.array([2]), tree).emitted.tolist() == [[2, -1, -1, -1]]
    with pytest.raises(InvalidInputError, match="^drafts: expected paths of one length"):
        tree.paths  # noqa: B018  # raises


def test_emitted_is_the_accepted_prefix_then_the_next_token_then_padding():
    rows = np.full((3, 2, 4, 10), 0.1)
    drafts = Drafts.of_paths(np.array([[[1, 2, 3], [4, 5, 6]]] * 3), rows[:, :, :3], rows)
    path, tau, token = np.array([0, 1, 0]), np.array([0, 2, 3]), np.array([7, 8, 9])
    verdict = Verdict.on_paths(drafts, path, tau, token)
    assert verdict.node.tolist() == [ROOT, 3, 4]
    assert verdict.num_accepted.tolist() == tau.tolist()
    assert verdict.emitted.tolist() == [[7, -1, -1, -1], [4, 5, 8, -1], [1, 2, 3, 9]]


class Old:
    """A rule for paths as they once were: `verify` reads arrays [B, K, L, V] of the drafts."""

    def __init__(self, name):
        self.name = name

    def verify(self, drafts, decisions):
        rows = getattr(drafts, self.name)
        return decisions.categorical(rows[:, 0, 0])


@pytest.mark.parametrize("array", ["draft_probs", "target_probs", "draft_length"])
def test_rules_of_the_former_interface_get_the_lines_to_change(array):
    message = rf"drafts\.{array}: .*`paths = drafts.paths`.*`return Verdict.on_paths\(drafts, "
    with pytest.raises(AttributeError, match=message):
        Old(array).verify(Drafts.of_paths(*arrays()), None)
    with pytest.raises(AttributeError, match="^'Drafts' object has no attribute 'no_such_name'$"):
        Old("no_such_name").verify(Drafts.of_paths(*arrays()), None)


def test_unknown_verifier_is_refused_by_name():
    with pytest.raises(InvalidInputError, match="unknown verifier 'nope'; known ones are token, block"):
        verifiers.get("nope")


def test_undeclared_traits_have_defaults():
    assert traits_of(verifiers.get("traversal")) == Traits()
    assert traits_of(verifiers.get("top_draft")) == Traits(walks=True)
    assert drafting_of(verifiers.get("top_draft")) is Siblings.TOP_AND_SAMPLED
    assert drafting_of(verifiers.get("recursive_rejection_distinct")) is Siblings.DISTINCT
    assert drafting_of(verifiers.get("lookahead_multipath_block")) is Siblings.INDEPENDENT


def test_a_rule_that_accepts_nothing_by_name_takes_independent_paths_only():
    class Plain:
        single_path = True

    assert traits_of(Plain()) == Traits(single_path=True, paths_only=True)
    assert accepts_of(Plain()) == {Siblings.PATHS}


def test_traits_and_laws_may_be_plain_attributes():
    class Plain:
        accepts = ("distinct", "beam")
        single_path = True

    assert traits_of(Plain()) == Traits(single_path=True)
    assert accepts_of(Plain()) == {Siblings.DISTINCT, Siblings.BEAM}
    assert drafting_of(Plain()) is Siblings.DISTINCT


@pytest.mark.parametrize("accepts", ["distinct", (), 3])
def test_accepts_must_be_a_collection_of_laws(accepts):
    rule = type("Rule", (), {"accepts": accepts})
    with pytest.raises(InvalidInputError, match="^accepts: expected a set of laws of siblings, such as"):
        accepts_of(rule())


def test_an_unknown_law_of_siblings_is_refused_by_name():
    rule = type("Rule", (), {"accepts": ("indepedent",)})
    with pytest.raises(InvalidInputError, match="^accepts: unknown law of siblings 'indepedent'"):
        accepts_of(rule())
    with pytest.raises(InvalidInputError, match="^drafting: unknown law of siblings"):
        Traits(drafting="nope")
