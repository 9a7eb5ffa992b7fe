"""EAGLE's rules for the siblings of a draft tree, written here from what eagle/model/utils.py computes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from lab.claims.published import one_hot
from verifiers.arrays import Array, arange_like, divide, kept, namespace, normalised, positive_part
from verifiers.interface import DecisionSource, Drafting, Drafts, Traits, Verdict
from verifiers.parts.walk import Node, OneStepRule, walk

Rule: TypeAlias = Callable[[Array, Array, Array], Array]
"""Takes what is left of the target [B, V], the draft int [B], and q without those before it [B, V]."""


def keep_siblings(node: Node, decisions: DecisionSource) -> Array:
    """Try the drafts of a node in turn: keep x with probability p(x), else take x out of p and renormalise.

    EAGLE 2 and 3, `evaluate_posterior` at a temperature above 0. It reads no draft probabilities.
    """

    def refuse(left: Array, token: Array, _: Array) -> Array:
        return kept(~(one_hot(token, left) > 0), left)

    return _in_turn(node, decisions, lambda left, token, _: _at(left, token), refuse)


def subtract_siblings(node: Node, decisions: DecisionSource) -> Array:
    """Try the drafts of a node in turn: keep x with probability p(x)/q(x), else go on with (p - q)+.

    EAGLE 1: p is normalised after each refusal, and q without the drafts before x.
    """

    def chance(left: Array, token: Array, draft: Array) -> Array:
        return divide(_at(left, token), _at(draft, token), otherwise=0)

    return _in_turn(node, decisions, chance, lambda left, _, draft: positive_part(left - draft))


def _in_turn(node: Node, decisions: DecisionSource, chance: Rule, refuse: Rule) -> Array:
    xp = namespace(node.target)
    left, draft, token = node.target, node.draft, node.tokens[:, 0]
    undecided = node.present[:, 0] | True
    for k in range(node.tokens.shape[1]):
        drafted, tried = node.tokens[:, k], undecided & node.present[:, k]
        accepted = decisions.bernoulli(kept(tried, chance(left, drafted, draft)))
        token, undecided = xp.where(accepted, drafted, token), undecided & ~accepted
        refused = (tried & ~accepted)[:, None]
        left = xp.where(refused, normalised(refuse(left, drafted, draft)), left)
        draft = xp.where(refused, normalised(kept(~(one_hot(drafted, draft) > 0), draft)), draft)
    return decisions.categorical(xp.where(undecided[:, None], left, one_hot(token, left)))


def _at(rows: Array, token: Array) -> Array:
    return rows[arange_like(token, token.shape[0]), token]


@dataclass(frozen=True)
class SiblingWalk:
    """A walk down a draft tree by one of EAGLE's rules.

    ``raw_bonus``: the bonus token is sampled from the model's distribution before it was processed, here with
    temperature 2: proportional to p^2 where p is the processed one.
    """

    drafting: Drafting = Drafting.DISTINCT
    rule: OneStepRule = keep_siblings
    raw_bonus: bool = False

    @property
    def traits(self) -> Traits:
        """How its drafts are sampled."""
        return Traits(drafting=self.drafting)

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down the draft tree of every request."""
        if self.raw_bonus:
            rows, length = drafts.target_probs, drafts.draft_length
            last = rows[:, :, length:]
            raw = namespace(rows).concat([rows[:, :, :length], normalised(last * last)], axis=2)
            drafts = replace(drafts, target_probs=raw)
        return walk(drafts, decisions, self.rule)
