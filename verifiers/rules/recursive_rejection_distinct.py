"""Recursive rejection over distinct drafts: a rejected token is also removed from the draft distribution."""

from verifiers.arrays import (
    Array,
    all_true,
    arange_like,
    divide,
    kept,
    minimum_one,
    namespace,
    normalised,
    pick,
    zeros,
)
from verifiers.interface import DecisionSource, Siblings, Traits
from verifiers.parts.path import residual
from verifiers.parts.walk import SAMPLED, ActiveDecisions, Node, Walk


def reject_distinct_in_turn(node: Node, decisions: DecisionSource) -> Array:
    """Test each distinct draft, in order of first appearance, against what is left of target and draft.

    After a rejection the target becomes (target - draft)+ and the draft loses the token, both renormalised.
    A token drawn again has no draft mass left and is passed over.
    """
    xp = namespace(node.target)
    target, law = node.target, node.draft
    done = ~all_true(node.present[:, 0])
    token = zeros(node.tokens[:, 0])
    every = arange_like(law, law.shape[-1])[None, :]
    for k in range(node.tokens.shape[1]):
        draft = node.tokens[:, k]
        mass = pick(law, draft)
        tested = node.present[:, k] & ~done & (mass > 0)
        chance = minimum_one(divide(pick(target, draft), mass, otherwise=1))
        accepted = ActiveDecisions(decisions, tested).bernoulli(chance)
        token = xp.where(accepted, draft, token)
        done = done | accepted
        rejected = (tested & ~accepted)[:, None]
        target = xp.where(rejected, normalised(residual(target, law)), target)
        without = normalised(kept(every != draft[:, None], law))
        law = xp.where(rejected, without, law)
    redrawn = ActiveDecisions(decisions, ~done).categorical(target)
    return xp.where(done, token, redrawn)


RECURSIVE_REJECTION_DISTINCT = Walk(
    reject_distinct_in_turn, SAMPLED, Traits(drafting=Siblings.DISTINCT, walks=True)
)
"""Rejection without replacement (arXiv 2402.14160; Sequoia, 2402.12374).

Declares drafts drawn without replacement; lossless for independent ones too, because these, reduced to
distinct tokens in order of first appearance, are draws without replacement.
"""
