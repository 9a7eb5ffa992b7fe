"""Faulty rules for draft trees, written against `DecisionSource`: each is one real bug, isolated.

All are one right walk with one part replaced: recursive rejection down the tree, of siblings that were drawn
without replacement unless a specimen says otherwise. They are audited as tree rules, by enumeration.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lab.specimens.specimen import specimen
from verifiers import DecisionSource
from verifiers.arrays import divide, minimum_one, normalised, pick, pick_each
from verifiers.parts.residual import residual
from verifiers.parts.walk import ActiveDecisions
from verifiers.trees import EMPTY, ROOT, Siblings, TreeDrafts, TreeVerdict

Array: TypeAlias = Any
Rows: TypeAlias = tuple[Array, Array]
"""Rows of the target and of the draft [B, V]."""

DEEPEST = 3
"""Tokens of a path that are verified at most."""


def ratio(rows: Rows, token: Array) -> Array:
    """Accept a sibling, int [B], with min(1, p/q)."""
    target, draft = (pick_each(row, token[:, None])[:, 0] for row in rows)
    return minimum_one(divide(target, draft, otherwise=0))


def left_without(rows: Rows, token: Array) -> Rows:
    """Go on with the residual, and with q without the refused token, both normalised."""
    target, draft = rows
    return normalised(residual(target, draft)), normalised(_struck(draft, token))


def left_of_independent(rows: Rows, token: Array) -> Rows:
    """Go on with the residual and with q as it is: siblings are independent."""
    target, draft = rows
    return normalised(residual(target, draft)), draft


def left_of_certain(rows: Rows, token: Array) -> Rows:
    """Take the refused token out of p, and normalise."""
    target, draft = rows
    return normalised(_struck(target, token)), draft


def _struck(row: Array, token: Array) -> Array:
    return np.where(np.arange(row.shape[1]) == token[:, None], row * 0, row)


def unchanged(drafts: TreeDrafts) -> TreeDrafts:
    """Read the draft trees as they are given."""
    return drafts


def row_after(drafts: TreeDrafts, node: Array, depth: int) -> Array:
    """Return the row that follows a place or `ROOT`, int [B]."""
    return node + 1


def itself(drafts: TreeDrafts, place: Array) -> Array:
    """Go on below the accepted place."""
    return place


@dataclass(frozen=True)
class Walk:
    """Recursive rejection down a draft tree; ``rule`` is the one that it declares."""

    chance: Callable[[Rows, Array], Array] = ratio
    left: Callable[[Rows, Array], Rows] = left_without
    given: Callable[[TreeDrafts], TreeDrafts] = unchanged
    row: Callable[[TreeDrafts, Array, int], Array] = row_after
    below: Callable[[TreeDrafts, Array], Array] = itself
    accepts: frozenset[Siblings] = frozenset({Siblings.DISTINCT})
    rule: str | None = None

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Walk down from the root; siblings are tested in turn."""
        given = self.given(drafts)
        node = np.full(drafts.batch, ROOT)
        next_token, stopped = node * 0, node > ROOT
        for depth in range(min(DEEPEST, drafts.places)):
            at = self.row(given, node, depth)
            rows = pick(given.target_probs, at), pick(given.draft_probs, at)
            accepted = np.full(drafts.batch, EMPTY)
            here = given.present & (given.parents == node[:, None]) & ~stopped[:, None]
            for place in range(drafts.places):
                tested = here[:, place] & (accepted == EMPTY)
                token = np.where(tested, given.tokens[:, place], 0)
                passes = ActiveDecisions(decisions, tested).bernoulli(self.chance(rows, token))
                accepted = np.where(passes, place, accepted)
                refused, left = (tested & ~passes)[:, None], self.left(rows, token)
                rows = np.where(refused, left[0], rows[0]), np.where(refused, left[1], rows[1])
            ends = here.any(axis=1) & (accepted == EMPTY)
            next_token = np.where(ends, ActiveDecisions(decisions, ends).categorical(rows[0]), next_token)
            stopped |= ends
            node = np.where(accepted == EMPTY, node, self.below(given, accepted))
        bonus = pick(given.target_probs, self.row(given, node, drafts.places))
        token = ActiveDecisions(decisions, ~stopped).categorical(bonus)
        return TreeVerdict(node, np.where(stopped, next_token, token), drafts)


RIGHT = Walk(rule="recursive_rejection_distinct")
OF_INDEPENDENT = Walk(
    left=left_of_independent, accepts=frozenset({Siblings.INDEPENDENT}), rule="recursive_rejection"
)
OF_CERTAIN = Walk(
    chance=lambda rows, token: pick_each(rows[0], token[:, None])[:, 0],
    left=left_of_certain,
    accepts=frozenset({Siblings.TOP}),
    rule="eagle",
)

tree = partial(specimen, prefix="tree-")


def walk(part: str, right: Walk = RIGHT, **others: Any) -> Callable[[Any], Walk]:
    """Return what makes a walk of a function: the right one with a ``part`` replaced, no rule declared."""
    return lambda function: replace(right, **{part: function, "rule": None, **others})


# Controls.


@tree("control", tree=lambda left: replace(RIGHT, left=left))
def recursive_rejection(rows: Rows, token: Array) -> Rows:
    """Recursive rejection of siblings without replacement, as declared."""
    return left_without(rows, token)


@tree("N5", tree=lambda left: replace(OF_CERTAIN, left=left))
def certain_siblings(rows: Rows, token: Array) -> Rows:
    """Top siblings taken for certain: accepted with p(x), and p renormalised after each refusal."""
    return left_of_certain(rows, token)


@tree("control", tree=walk("given"))
def path_ends_after_an_unlikely_token(drafts: TreeDrafts) -> TreeDrafts:
    """What was drafted below a token of low q is not looked at; the token itself is."""
    unlikely = np.take_along_axis(_is_unlikely(drafts), np.maximum(drafts.parents, 0), axis=1)
    return replace(drafts, parents=np.where(unlikely & (drafts.parents >= 0), EMPTY, drafts.parents))


def _is_unlikely(drafts: TreeDrafts) -> Array:
    """Return whether each drafted token has a low q, bool [B, N]."""
    row, request = np.maximum(drafts.parents + 1, 0), np.arange(drafts.batch)[:, None]
    token = np.clip(drafts.tokens, 0, drafts.vocab_size - 1)
    return np.asarray(drafts.draft_probs[request, row, token] < 1 / 3)


# The walk accepts otherwise.


@tree("mutant", "joint", tree=walk("given"))
def unlikely_token_dropped(drafts: TreeDrafts) -> TreeDrafts:
    """A drafted token of low q is dropped before verification, so that the others are no samples of q."""
    return replace(drafts, parents=np.where(_is_unlikely(drafts), EMPTY, drafts.parents))


@tree("A7", "joint", tree=walk("chance", OF_CERTAIN, left=left_without))
def top_siblings_by_ratio(rows: Rows, token: Array) -> Array:
    """The ratio p/q judges the most likely tokens, which are certain to be drafted."""
    return ratio(rows, token)


@tree("A11", "joint", tree=walk("chance"))
def accepted_by_argmax(rows: Rows, token: Array) -> Array:
    """A sibling is accepted if it is the target's most likely token."""
    return (rows[0].argmax(axis=1) == token) + rows[0][:, 0] * 0


@tree("mutant", "joint", tree=walk("chance"))
def ratio_to_the_likeliest_sibling(rows: Rows, token: Array) -> Array:
    """Every sibling is judged by the q of the likeliest one."""
    likeliest = pick_each(rows[0], token[:, None])[:, 0], rows[1].max(axis=1)
    return minimum_one(divide(*likeliest, otherwise=0))


# The walk goes on otherwise after a refusal.


@tree("G2", "joint", tree=walk("left"))
def draft_not_renormalised(rows: Rows, token: Array) -> Rows:
    """The next sibling is judged by a q without the refused token that was not renormalised."""
    return left_without(rows, token)[0], _struck(rows[1], token)


@tree("G3", "joint", tree=walk("left"))
def same_target_for_every_sibling(rows: Rows, token: Array) -> Rows:
    """Every sibling is judged against the same target, which corrects, too."""
    return rows[0], left_without(rows, token)[1]


@tree("G4", "joint", tree=walk("left", OF_CERTAIN))
def refused_sibling_leaves_a_hole(rows: Rows, token: Array) -> Rows:
    """A refused certain sibling leaves p, which is not renormalised for the next sibling."""
    return _struck(rows[0], token), rows[1]


@tree("mutant", "joint", tree=walk("left"))
def refused_siblings_stay_in_q(rows: Rows, token: Array) -> Rows:
    """Siblings without replacement are judged as independent ones: q keeps those that were refused."""
    return left_of_independent(rows, token)


@tree("mutant", "joint", tree=walk("left", accepts=OF_INDEPENDENT.accepts))
def repeated_sibling_judged_as_a_new_one(rows: Rows, token: Array) -> Rows:
    """Independent siblings are judged as if without replacement, one that repeats another included."""
    return left_without(rows, token)


# The walk reads other rows.


@tree("E3", "joint", tree=walk("row"))
def bonus_from_the_row_above(drafts: TreeDrafts, node: Array, depth: int) -> Array:
    """The bonus of a leaf comes from the row of the node above it."""
    is_bonus = (depth == drafts.places) & (node >= 0)
    return np.where(is_bonus, pick(drafts.parents, np.maximum(node, 0)) + 1, node + 1)


@tree("E2", "joint", tree=walk("row"))
def rows_below_the_first_sibling(drafts: TreeDrafts, node: Array, depth: int) -> Array:
    """Rows after an accepted sibling are those after the first one, which was refused."""
    above = pick(drafts.parents, np.maximum(node, 0))
    return np.where(node < 0, 0, (drafts.parents == above[:, None]).argmax(axis=1) + 1)


@tree("mutant", "shapes", tree=walk("row"))
def rows_of_two_levels(drafts: TreeDrafts, node: Array, depth: int) -> Array:
    """Rows are kept of two levels: after three accepted tokens the bonus comes from the row after two."""
    above = pick(drafts.parents, np.maximum(node, 0))
    is_third = (node >= 0) & (above >= 0) & (pick(drafts.parents, np.maximum(above, 0)) >= 0)
    return np.where(is_third, above + 1, node + 1)


@tree("D15", "batch", tree=walk("given"))
def rows_of_the_request_before(drafts: TreeDrafts) -> TreeDrafts:
    """Every request reads the target rows of the request before it."""
    return replace(drafts, target_probs=np.roll(drafts.target_probs, 1, axis=0))


# What only other checks find.


@tree("D11", "length", tree=lambda chance: replace(RIGHT, chance=chance, left=left_of_certain))
def sampled_siblings_taken_for_certain(rows: Rows, token: Array) -> Array:
    """No q is used: siblings are accepted with p(x), which is lossless, and less than the declared rule."""
    return pick_each(rows[0], token[:, None])[:, 0]


@tree("mutant", "length", tree=lambda below: replace(OF_INDEPENDENT, below=below))
def goes_on_below_the_last_of_equals(drafts: TreeDrafts, place: Array) -> Array:
    """Of equal siblings the first has the children, and they are looked for below the last."""
    accepted = np.maximum(place, 0)
    same = (drafts.parents == pick(drafts.parents, accepted)[:, None]) & drafts.present
    same &= drafts.tokens == pick(drafts.tokens, accepted)[:, None]
    return drafts.places - 1 - same[:, ::-1].argmax(axis=1)


@dataclass(frozen=True)
class Around:
    """The right walk with something done around its call, given (walk, drafts, decisions)."""

    call: Callable[[Walk, TreeDrafts, DecisionSource], TreeVerdict]
    accepts = RIGHT.accepts

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Verify a batch of draft trees."""
        return self.call(RIGHT, drafts, decisions)


@tree("B8", "scale", tree=Around)
def ids_of_16_bits(right: Walk, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
    """The next token is kept in 16 bits."""
    verdict = right.verify_tree(drafts, decisions)
    return replace(verdict, next_token=verdict.next_token & 0xFFFF)


@tree("D19", "bad-input", tree=Around)
def placeholder_accepted(right: Walk, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
    """Ids below 0 are made safe for the look-up of rows, and then accepted as drafts."""
    safe = replace(drafts, tokens=np.maximum(drafts.tokens, 0))
    return replace(right.verify_tree(safe, decisions), drafts=drafts)


@tree("B9", "inputs-kept", tree=Around)
def residual_in_callers_memory(right: Walk, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
    """After the call the first target row of the caller is a residual."""
    verdict = right.verify_tree(drafts, decisions)
    drafts.target_probs[:, 0] = residual(drafts.target_probs[:, 0], drafts.draft_probs[:, 0])
    return verdict


class EveryEighthCall:
    """Does something else in every eighth call."""

    accepts = RIGHT.accepts

    def __init__(self, part: Callable[[TreeDrafts], TreeDrafts]) -> None:
        self._part, self._calls = part, 0

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Verify a batch of draft trees."""
        self._calls += 1
        given = drafts if self._calls % 8 else self._part(drafts)
        return replace(RIGHT.verify_tree(given, decisions), drafts=drafts)


@tree("C12", "calls", tree=EveryEighthCall)
def ring_of_eight_buffers(drafts: TreeDrafts) -> TreeDrafts:
    """Every eighth call finds target rows in the ring that are one request off."""
    return rows_of_the_request_before(drafts)
