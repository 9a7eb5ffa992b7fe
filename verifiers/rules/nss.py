"""Draw from the target and see whether the token was drafted: the baseline that ignores q."""

from verifiers.arrays import Array
from verifiers.interface import DecisionSource, Siblings, Traits
from verifiers.parts.walk import Node, Walk


def draw_target(node: Node, decisions: DecisionSource) -> Array:
    """Return a fresh draw from the target row; it is accepted when it happens to be drafted."""
    return decisions.categorical(node.target)


NSS = Walk(draw_target, frozenset(Siblings), Traits(walks=True, any_order=True))
"""Naive speculative sampling on trees: accepts with probability sum_x p (1 - (1 - q)^n) at a node."""
