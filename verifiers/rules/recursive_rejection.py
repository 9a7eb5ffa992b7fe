"""Recursive rejection over independent drafts: each in turn is tested against what is left of the target."""

from verifiers.arrays import Array, all_true, divide, minimum_one, namespace, normalised, pick, zeros
from verifiers.interface import DecisionSource, Traits
from verifiers.parts.path import residual
from verifiers.parts.walk import INDEPENDENT, ActiveDecisions, Node, Walk


def reject_in_turn(node: Node, decisions: DecisionSource) -> Array:
    """Test every draft against the current target, which each rejection replaces by (target - q)+."""
    xp = namespace(node.target)
    target = node.target
    done = ~all_true(node.present[:, 0])
    token = zeros(node.tokens[:, 0])
    for k in range(node.tokens.shape[1]):
        draft = node.tokens[:, k]
        tested = node.present[:, k] & ~done
        chance = minimum_one(divide(pick(target, draft), pick(node.draft, draft), otherwise=0))
        kept = ActiveDecisions(decisions, tested).bernoulli(chance)
        token = xp.where(kept, draft, token)
        done = done | kept
        rejected = (tested & ~kept)[:, None]
        target = xp.where(rejected, normalised(residual(target, node.draft)), target)
    redrawn = ActiveDecisions(decisions, ~done).categorical(target)
    return xp.where(done, token, redrawn)


RECURSIVE_REJECTION = Walk(reject_in_turn, INDEPENDENT, Traits(walks=True))
"""SpecInfer's multi-step speculative sampling (Miao et al., arXiv 2305.09781, algorithm 2)."""
