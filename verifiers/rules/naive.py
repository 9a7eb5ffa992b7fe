"""The token rule on the first draft of each node; other drafts count only if the redraw lands on them."""

from verifiers.arrays import Array, pick
from verifiers.interface import DecisionSource, Drafts, Traits, Verdict
from verifiers.parts.walk import Node, accept_or_redraw, first_true, walk


def first_draft_or_residual(node: Node, decisions: DecisionSource) -> Array:
    """Apply the token rule to the first draft present."""
    first = pick(node.tokens, first_true(node.present))
    return accept_or_redraw(first, node.draft, node.target, decisions)


class NaiveVerifier:
    """Token rule on one draft per node, walking on wherever the emitted token was drafted."""

    traits = Traits(walks=True)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down the draft tree of every request."""
        return walk(drafts, decisions, first_draft_or_residual)
