"""The token rule on the first draft of each node; other drafts count only if the redraw lands on them."""

from verifiers.arrays import Array, pick
from verifiers.interface import DecisionSource, Traits
from verifiers.parts.walk import SAMPLED, Node, Walk, accept_or_redraw, first_true


def first_draft_or_residual(node: Node, decisions: DecisionSource) -> Array:
    """Apply the token rule to the first draft present."""
    first = pick(node.tokens, first_true(node.present))
    return accept_or_redraw(first, node.draft, node.target, decisions)


NAIVE = Walk(first_draft_or_residual, SAMPLED, Traits(walks=True))
"""Token rule on one draft per node, walking on wherever the emitted token was drafted."""
