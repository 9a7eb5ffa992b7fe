"""Walking down the draft tree with a one-step rule.

At every node a one-step rule is shown the drafts that were drawn there and returns one token whose law is the
target's row, whatever the drafts. If that token was drafted the walk goes on below it, else it stops. Any
such rule gives a lossless verifier: what is emitted at each node has the law p given the prefix, and the
drafts further down are still untouched draws from q.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from verifiers.arrays import (
    Array,
    all_true,
    arange_like,
    divide,
    filled,
    in_working_precision,
    kept,
    namespace,
    ones,
    pick,
    zeros,
)
from verifiers.interface import ROOT, DecisionSource, Drafts, Siblings, Traits, Verdict
from verifiers.parts.path import residual


@dataclass(frozen=True)
class Node:
    """What a one-step rule sees, for B requests: the rows of the node and the drafts drawn there.

    ``target`` and ``draft`` [B, V]; ``tokens`` int [B, K]; ``present`` bool [B, K], the drafts at this
    node (at least one; the tokens of the others mean nothing).
    """

    target: Array
    draft: Array
    tokens: Array
    present: Array

    @property
    def num_drafts(self) -> Array:
        """How many drafts there are at this node, int [B]."""
        xp = namespace(self.tokens)
        return xp.sum(xp.astype(self.present, xp.int64), axis=-1)


OneStepRule: TypeAlias = Callable[[Node, DecisionSource], Array]
"""Returns one token per request, int [B], of law ``node.target``."""


Reached: TypeAlias = tuple[Array, Array, Array]
"""How far a walk came: the node int [B], whether it goes on there, bool [B], and the next token int [B]."""


def run_at_once(step: Callable[[], Reached]) -> Reached:
    """Return what a step returns."""
    return step()


class ActiveDecisions:
    """Decisions for some requests of a batch; for the others every answer is a certain False or 0.

    So an enumeration of the batch does not branch on requests that have nothing left to decide.
    """

    def __init__(self, decisions: DecisionSource, active: Array) -> None:
        self._decisions = decisions
        self._active = active

    def bernoulli(self, probability: Array) -> Array:
        """Ask for the active requests, probability [B] or [B, N]; False elsewhere."""
        active = self._active if probability.ndim == 1 else self._active[:, None]
        return self._decisions.bernoulli(kept(active, probability))

    def categorical(self, weights: Array) -> Array:
        """Ask for the active requests, weights [B, V]; 0 elsewhere."""
        certain = zeros(weights[:1])
        certain[:, :1] = ones(certain[:, :1])
        return self._decisions.categorical(namespace(weights).where(self._active[:, None], weights, certain))


def first_true(mask: Array) -> Array:
    """Return the index of the first True in each row, int [B] from bool [B, N]; 0 where there is none."""
    xp = namespace(mask)
    countdown = mask.shape[1] - arange_like(mask, mask.shape[1])[None, :]
    return xp.argmax(kept(mask, countdown), axis=-1)


def on_the_first_of_equals(chances: Array, tokens: Array) -> Array:
    """Return ``chances`` [B, K] of drafts with those of equal ``tokens`` int [B, K] given to the first.

    Where the token is all that counts, there is less to decide.
    """
    xp = namespace(tokens)
    number = arange_like(tokens, tokens.shape[1])
    equal = tokens[:, :, None] == tokens[:, None, :]
    first = ~xp.any(equal & (number[None, None, :] < number[None, :, None]), axis=-1)
    return kept(first, xp.sum(kept(equal, chances[:, None, :]), axis=-1))


def accept_or_redraw(token: Array, law: Array, target: Array, decisions: DecisionSource) -> Array:
    """Apply the token rule to a draft of the given ``law``: keep it, or redraw from (p - law)+.

    token int [B]; law and target [B, V]; returns int [B] of law ``target`` (2211.17192, algorithm 1).
    """
    xp = namespace(target)
    request = arange_like(token, token.shape[0])
    drawn, wanted = law[request, token], target[request, token]
    # A token of law zero is never drawn; where the law is broken (NaN) it is left to the target.
    accepted = decisions.bernoulli(divide(xp.where(wanted < drawn, wanted, drawn), drawn, otherwise=0))
    redrawn = ActiveDecisions(decisions, ~accepted).categorical(residual(target, law))
    return xp.where(accepted, token, redrawn)


def walk(drafts: Drafts, decisions: DecisionSource, rule: OneStepRule) -> Verdict:
    """Walk down the tree of every request with ``rule``; a token of the target follows a leaf."""
    node = filled(drafts.tokens[:, 0], ROOT)
    reached: Reached = node, all_true(node), zeros(node)
    # A source that runs all outcomes begins anew for each of them, and knows what earlier steps returned.
    take = getattr(decisions, "step_once", run_at_once)
    for depth in range(drafts.depth):
        reached = take(partial(_one_step, drafts, depth, reached, decisions, rule))
    node, active, next_token = reached
    bonus = ActiveDecisions(decisions, active).categorical(in_working_precision(drafts.target.row(node)))
    return Verdict(node, namespace(node).where(active, bonus, next_token), drafts)


def _one_step(
    drafts: Drafts, depth: int, reached: Reached, decisions: DecisionSource, rule: OneStepRule
) -> Reached:
    """Return how far the walk came after one more token."""
    node, active, next_token = reached
    xp, children = namespace(node), drafts.children(node, depth)
    walking = active & xp.any(children.present, axis=-1)
    # A request that has nothing to decide shows the rule some draft.
    first = arange_like(node, children.tokens.shape[1])[None, :] == 0
    shown = children.present | (first & ~walking[:, None])
    at = node if depth else ROOT  # one number while it is the same for all
    target, draft = (in_working_precision(rows.row(at)) for rows in (drafts.target, drafts.draft))
    token = rule(Node(target, draft, children.tokens, shown), ActiveDecisions(decisions, walking))
    matching = children.present & (children.tokens == token[:, None]) & walking[:, None]
    goes_on = xp.any(matching, axis=-1)
    next_token = xp.where(walking & ~goes_on, token, next_token)
    active = active & (goes_on | ~walking)
    return xp.where(goes_on, pick(children.places, first_true(matching)), node), active, next_token


INDEPENDENT: Final = frozenset({Siblings.INDEPENDENT, Siblings.PATHS})
"""The siblings of a rule that needs independent drafts."""

SAMPLED: Final = INDEPENDENT | {Siblings.DISTINCT, Siblings.BEAM}
"""The siblings of a rule whose first draft at a node has the law q."""


@dataclass(frozen=True)
class Walk:
    """A verifier that walks down draft trees with a one-step rule.

    Lossless for the ``accepts`` laws of siblings, if the rule is at every node, however many there are:
    nothing has been looked at that lies below the token which the rule returns.
    """

    rule: OneStepRule
    accepts: frozenset[Siblings]
    traits: Traits

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down the draft tree of every request."""
        return walk(drafts, decisions, self.rule)
