"""Faulty rules for draft trees, written against `DecisionSource`: each is one real bug, isolated.

All are one right walk with one part replaced: recursive rejection down the tree, of siblings that were drawn
without replacement unless a specimen says otherwise. They are audited by enumeration.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lab.specimens.specimen import specimen
from verifiers import EMPTY, ROOT, DecisionSource, Drafts, Siblings, Verdict
from verifiers.arrays import divide, minimum_one, normalised, pick, pick_each
from verifiers.parts.path import residual
from verifiers.parts.walk import ActiveDecisions

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


def unchanged(drafts: Drafts) -> Drafts:
    """Read the draft trees as they are given."""
    return drafts


def row_after(drafts: Drafts, node: Array, depth: int) -> Array:
    """Return the place, or `ROOT`, whose row is read after a place or `ROOT`, int [B]."""
    return node


def itself(drafts: Drafts, place: Array) -> Array:
    """Go on below the accepted place."""
    return place


@dataclass(frozen=True)
class Walk:
    """Recursive rejection down a draft tree."""

    chance: Callable[[Rows, Array], Array] = ratio
    left: Callable[[Rows, Array], Rows] = left_without
    given: Callable[[Drafts], Drafts] = unchanged
    row: Callable[[Drafts, Array, int], Array] = row_after
    below: Callable[[Drafts, Array], Array] = itself
    accepts: frozenset[Siblings] = frozenset({Siblings.DISTINCT})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down from the root; siblings are tested in turn."""
        given = self.given(drafts)
        node = np.full(drafts.batch, ROOT)
        next_token, stopped = node * 0, node > ROOT
        for depth in range(min(DEEPEST, drafts.places)):
            at = self.row(given, node, depth)
            rows = given.target.row(at), given.draft.row(at)
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
        bonus = given.target.row(self.row(given, node, drafts.places))
        token = ActiveDecisions(decisions, ~stopped).categorical(bonus)
        return Verdict(node, np.where(stopped, next_token, token), drafts)


RIGHT = Walk()
OF_INDEPENDENT = Walk(left=left_of_independent, accepts=frozenset({Siblings.INDEPENDENT}))
OF_CERTAIN = Walk(
    chance=lambda rows, token: pick_each(rows[0], token[:, None])[:, 0],
    left=left_of_certain,
    accepts=frozenset({Siblings.TOP}),
)

tree = partial(specimen, prefix="tree-")


def walk(part: str, right: Walk = RIGHT, **others: Any) -> Callable[[Any], Walk]:
    """Return what makes a walk of a function: the right one with a ``part`` replaced."""
    return lambda function: replace(right, **{part: function, **others})


# Controls.


@tree("control", declared="recursive_rejection_distinct", rule=walk("left"))
def recursive_rejection(rows: Rows, token: Array) -> Rows:
    """Recursive rejection of siblings without replacement, as declared."""
    return left_without(rows, token)


@tree("N5", declared="eagle", rule=walk("left", OF_CERTAIN))
def certain_siblings(rows: Rows, token: Array) -> Rows:
    """Top siblings taken for certain: accepted with p(x), and p renormalised after each refusal."""
    return left_of_certain(rows, token)


@tree("control", rule=walk("given"))
def path_ends_after_an_unlikely_token(drafts: Drafts) -> Drafts:
    """What was drafted below a token of low q is not looked at; the token itself is."""
    unlikely = np.take_along_axis(_is_unlikely(drafts), np.maximum(drafts.parents, 0), axis=1)
    return replace(drafts, parents=np.where(unlikely & (drafts.parents >= 0), EMPTY, drafts.parents))


def _is_unlikely(drafts: Drafts) -> Array:
    """Return whether each drafted token has a low q, bool [B, N]."""
    token = np.clip(drafts.tokens, 0, drafts.vocab_size - 1)
    return np.asarray(drafts.draft.entries(np.maximum(drafts.parents, ROOT), token) < 1 / 3)


# The walk accepts otherwise.


@tree("mutant", "joint", rule=walk("given"))
def unlikely_token_dropped(drafts: Drafts) -> Drafts:
    """A drafted token of low q is dropped before verification, so that the others are no samples of q."""
    return replace(drafts, parents=np.where(_is_unlikely(drafts), EMPTY, drafts.parents))


@tree("A7", "joint", rule=walk("chance", OF_CERTAIN, left=left_without))
def top_siblings_by_ratio(rows: Rows, token: Array) -> Array:
    """The ratio p/q judges the most likely tokens, which are certain to be drafted."""
    return ratio(rows, token)


@tree("A11", "joint", rule=walk("chance"))
def accepted_by_argmax(rows: Rows, token: Array) -> Array:
    """A sibling is accepted if it is the target's most likely token."""
    return (rows[0].argmax(axis=1) == token) + rows[0][:, 0] * 0


# The walk goes on otherwise after a refusal.


@tree("mutant", "joint", rule=walk("left", accepts=OF_INDEPENDENT.accepts))
def repeated_sibling_judged_as_a_new_one(rows: Rows, token: Array) -> Rows:
    """Independent siblings are judged as if without replacement, one that repeats another included."""
    return left_without(rows, token)


# The walk reads other rows.


@tree("E2", "joint", rule=walk("row"))
def rows_below_the_first_sibling(drafts: Drafts, node: Array, depth: int) -> Array:
    """Rows after an accepted sibling are those after the first one, which was refused."""
    above = pick(drafts.parents, np.maximum(node, 0))
    return np.where(node < 0, ROOT, (drafts.parents == above[:, None]).argmax(axis=1))


@tree("mutant", "shapes", rule=walk("row"))
def rows_of_two_levels(drafts: Drafts, node: Array, depth: int) -> Array:
    """Rows are kept of two levels: after three accepted tokens the bonus comes from the row after two."""
    above = pick(drafts.parents, np.maximum(node, 0))
    is_third = (node >= 0) & (above >= 0) & (pick(drafts.parents, np.maximum(above, 0)) >= 0)
    return np.where(is_third, above, node)


@tree("D15", "batch", rule=walk("given"))
def rows_of_the_request_before(drafts: Drafts) -> Drafts:
    """Every request reads the target rows of the request before it."""
    return replace(drafts, target=drafts.target.take(np.arange(drafts.batch) - 1))


# What only other checks find.


@tree("D11", "length", declared="recursive_rejection_distinct", rule=walk("chance", left=left_of_certain))
def sampled_siblings_taken_for_certain(rows: Rows, token: Array) -> Array:
    """No q is used: siblings are accepted with p(x), which is lossless, and less than the declared rule."""
    return pick_each(rows[0], token[:, None])[:, 0]


@dataclass(frozen=True)
class Around:
    """The right walk with something done around its call, given (walk, drafts, decisions)."""

    call: Callable[[Walk, Drafts, DecisionSource], Verdict]
    accepts = RIGHT.accepts

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify a batch of draft trees."""
        return self.call(RIGHT, drafts, decisions)


@tree("B8", "scale", rule=Around)
def ids_of_16_bits(right: Walk, drafts: Drafts, decisions: DecisionSource) -> Verdict:
    """The next token is kept in 16 bits."""
    verdict = right.verify(drafts, decisions)
    return replace(verdict, next_token=verdict.next_token & 0xFFFF)


@tree("B9", "inputs-kept", rule=Around)
def residual_in_callers_memory(right: Walk, drafts: Drafts, decisions: DecisionSource) -> Verdict:
    """After the call the first target row of the caller is a residual."""
    verdict = right.verify(drafts, decisions)
    first = drafts.target.row(ROOT)
    first[:] = residual(first, drafts.draft.row(ROOT))
    return verdict


class EveryEighthCall:
    """Does something else in every eighth call."""

    accepts = RIGHT.accepts

    def __init__(self, part: Callable[[Drafts], Drafts]) -> None:
        self._part, self._calls = part, 0

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify a batch of draft trees."""
        self._calls += 1
        given = drafts if self._calls % 8 else self._part(drafts)
        return replace(RIGHT.verify(given, decisions), drafts=drafts)


@tree("C12", "calls", rule=EveryEighthCall)
def ring_of_eight_buffers(drafts: Drafts) -> Drafts:
    """Every eighth call finds target rows in the ring that are one request off."""
    return rows_of_the_request_before(drafts)
