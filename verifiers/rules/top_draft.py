"""Deterministic top drafts plus one sampled draft."""

from dataclasses import dataclass

from verifiers.arrays import Array, arange_like, namespace, normalised, pick
from verifiers.interface import DecisionSource, Drafting, Drafts, Verdict
from verifiers.parts.walk import Node, accept_or_redraw, first_true, walk


def likeliest(draft_row: Array) -> Array:
    """Return the tokens in descending order of q, int [B, V]; equal ones in ascending order of the token."""
    xp = namespace(draft_row)
    return xp.argsort(-draft_row, axis=-1, stable=True)


def sampled_law(draft_row: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the one sampled draft at a node that ``paths_here`` int [B] paths pass.

    It is q without the ``paths_here - 1`` likeliest tokens, renormalised; q itself when nothing is left.
    """
    xp = namespace(draft_row)
    order = likeliest(draft_row)
    rank = xp.argsort(order, axis=-1)
    rest = xp.where(rank < (paths_here - 1)[:, None], draft_row * 0, draft_row)
    empty = xp.sum(rest, axis=-1, keepdims=True) <= 0
    return xp.where(empty, draft_row, normalised(rest))


def child_law(draft_row: Array, earlier: Array, paths_here: Array) -> Array:
    """Return the law [B, V] of the next child of a node where ``earlier`` int [B] paths have one already."""
    xp = namespace(draft_row)
    vocab = draft_row.shape[-1]
    top = xp.take_along_axis(likeliest(draft_row), (earlier % vocab)[:, None], axis=-1)
    point = xp.where(arange_like(draft_row, vocab)[None, :] == top, draft_row * 0 + 1, draft_row * 0)
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


@dataclass(frozen=True)
class TopDraftVerifier:
    """Greedy multi-draft sampling (Hu et al., arXiv 2502.18779; SpecHub, 2411.05289)."""

    drafting: Drafting = Drafting.TOP_AND_SAMPLED

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down the draft tree of every request."""
        return walk(drafts, decisions, accept_sampled_or_top)
