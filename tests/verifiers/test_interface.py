"""Drafts refuse shapes that disagree; verdicts spell out what was emitted."""

import numpy as np
import pytest

import verifiers
from verifiers import Drafting, Drafts, InvalidInputError, Traits, Verdict, traits_of


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
def test_drafts_name_the_argument_whose_shape_disagrees(change, argument):
    with pytest.raises(InvalidInputError, match=f"^{argument}: expected shape"):
        Drafts(*change(*arrays()))


def test_drafts_know_their_sizes():
    drafts = Drafts(*arrays(batch=2, paths=3, length=4, vocab=5))
    assert (drafts.batch, drafts.num_paths, drafts.draft_length, drafts.vocab_size) == (2, 3, 4, 5)


def test_emitted_is_the_accepted_prefix_then_the_next_token_then_padding():
    draft_tokens = np.array([[[1, 2, 3], [4, 5, 6]]] * 3)
    verdict = Verdict(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([7, 8, 9]), draft_tokens)
    assert verdict.emitted.tolist() == [[7, -1, -1, -1], [4, 5, 8, -1], [1, 2, 3, 9]]


def test_unknown_verifier_is_refused_by_name():
    with pytest.raises(InvalidInputError, match="unknown verifier 'nope'; known ones are token, block"):
        verifiers.get("nope")


def test_what_is_not_declared_has_its_default():
    assert traits_of(verifiers.get("traversal")) == Traits()
    assert traits_of(verifiers.get("top_draft")) == Traits(drafting=Drafting.TOP_AND_SAMPLED, walks=True)


def test_traits_may_be_plain_attributes():
    class Plain:
        drafting = "distinct"
        single_path = True

    assert traits_of(Plain()) == Traits(drafting=Drafting.DISTINCT, single_path=True)
