"""Deterministic top drafts plus one sampled draft."""

from verifiers.arrays import Array, namespace, pick
from verifiers.interface import DecisionSource, Siblings, Traits
from verifiers.parts.top_draft_law import sampled_law
from verifiers.parts.walk import Node, Walk, accept_or_redraw, first_true


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
