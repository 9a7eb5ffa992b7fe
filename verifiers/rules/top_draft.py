"""Deterministic top drafts plus one sampled draft."""

from verifiers.arrays import Array, arange_like, kept, namespace, normalised, ones, pick
from verifiers.interface import DecisionSource, Siblings, Traits
from verifiers.parts.walk import Node, Walk, accept_or_redraw, first_true


def without_top(draft_row: Array, count: Array) -> tuple[Array, Array]:
    """Return q [B, V] without its ``count`` likeliest tokens, and the likeliest of the rest; both int [B].

    Of equally likely tokens the smaller one goes first; ``count`` is at most V.
    """
    xp = namespace(draft_row)
    tokens, gone = arange_like(draft_row, draft_row.shape[-1])[None, :], draft_row < 0
    for taken in range(int(xp.max(count))):
        top = _likeliest(draft_row, gone)
        gone = gone | ((tokens == top[:, None]) & (count > taken)[:, None])
    return kept(~gone, draft_row), _likeliest(draft_row, gone)


def _likeliest(draft_row: Array, gone: Array) -> Array:
    xp = namespace(draft_row)
    return xp.argmax(xp.where(gone, -ones(draft_row), draft_row), axis=-1)


def sampled_law(draft_row: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the one sampled draft at a node that ``paths_here`` int [B] paths pass.

    It is q without the ``paths_here - 1`` likeliest tokens, renormalised; q itself when nothing is left.
    """
    xp = namespace(draft_row)
    rest, _ = without_top(draft_row, paths_here - 1)
    empty = xp.sum(rest, axis=-1, keepdims=True) <= 0
    return xp.where(empty, draft_row, normalised(rest))


def child_law(draft_row: Array, earlier: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the next child of a node where ``earlier`` int [B] paths have one already."""
    xp = namespace(draft_row)
    vocab = draft_row.shape[-1]
    _, top = without_top(draft_row, earlier % vocab)
    point = kept(arange_like(draft_row, vocab)[None, :] == top[:, None], ones(draft_row))
    return xp.where((earlier < paths_here - 1)[:, None], point, sampled_law(draft_row, paths_here))


def accept_sampled_or_top(node: Node, decisions: DecisionSource) -> Array:
    """Apply the token rule to the sampled draft, the last path here; its redraw may land on a top draft.

    With T the top drafts and q' the law of the sampled one this accepts p(T) + sum_{x not in T} min(p, q'),
    the most that one sampled draft beside fixed ones allows.
    """
    xp = namespace(node.target)
    last = node.tokens.shape[1] - 1 - first_true(xp.flip(node.present, axis=1))
    law = sampled_law(node.draft, node.num_drafts)
    return accept_or_redraw(pick(node.tokens, last), law, node.target, decisions)


TOP_DRAFT = Walk(accept_sampled_or_top, frozenset({Siblings.TOP_AND_SAMPLED}), Traits(walks=True))
"""Greedy multi-draft sampling (Hu et al., arXiv 2502.18779; SpecHub, 2411.05289)."""
