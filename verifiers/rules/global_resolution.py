"""Global resolution: the one-step rule that accepts as often as any can, at every node of the draft tree."""

from verifiers.arrays import Array, pick, working_rows
from verifiers.interface import DecisionSource, Traits
from verifiers.parts.balanced_selection import balanced_chances
from verifiers.parts.walk import INDEPENDENT, Node, Walk, accept_or_redraw, on_the_first_of_equals


def select_and_test(node: Node, decisions: DecisionSource) -> Array:
    """Select a draft, then accept or redraw it against the law of the selection."""
    chances, law = balanced_chances(node.target, node.draft, node.tokens, node.present)
    choice = decisions.categorical(on_the_first_of_equals(chances, node.tokens))
    token = pick(node.tokens, choice)
    return accept_or_redraw(token, law, working_rows(node.target), decisions)


GLOBAL_RESOLUTION = Walk(select_and_test, INDEPENDENT, Traits(walks=True, any_order=True))
"""Thomas & Pal (arXiv 2511.15898), by balanced selection and the token rule on the selected draft.

A node with n independent drafts accepts with probability alpha* (docs/theory.md, "Budgets and the optimum"),
less the plan's shortfall.
"""
