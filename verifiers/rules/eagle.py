"""EAGLE's rule for siblings that were not sampled: accept x with p(x), else take x out of p."""

from verifiers.arrays import Array, all_true, arange_like, kept, namespace, normalised, pick, zeros
from verifiers.interface import DecisionSource, Siblings, Traits
from verifiers.parts.walk import ActiveDecisions, Node, Walk


def accept_or_remove(node: Node, decisions: DecisionSource) -> Array:
    """Accept each draft in turn with what is left of its target probability (EAGLE-2, arXiv 2406.16858).

    A refused token leaves the target, which is normalised again. The siblings may be any function of what is
    known before: what is returned has law p given them. It is a draw from p, made one sibling at a time, so
    the law of the verdict is that of `nss`.
    """
    xp = namespace(node.target)
    target, done, token = node.target, ~all_true(node.present[:, 0]), zeros(node.tokens[:, 0])
    every = arange_like(target, target.shape[-1])[None, :]
    for k in range(node.tokens.shape[1]):
        draft = node.tokens[:, k]
        tested = node.present[:, k] & ~done
        accepted = ActiveDecisions(decisions, tested).bernoulli(pick(target, draft))
        token = xp.where(accepted, draft, token)
        done = done | accepted
        left = kept(every != draft[:, None], target)
        refused = (tested & ~accepted)[:, None] & (xp.sum(left, axis=-1, keepdims=True) > 0)
        target = xp.where(refused, normalised(left), target)
    redrawn = ActiveDecisions(decisions, ~done).categorical(target)
    return xp.where(done, token, redrawn)


EAGLE = Walk(accept_or_remove, frozenset(Siblings), Traits(walks=True))
"""EAGLE's walk down trees of top tokens; lossless for siblings of any law."""
