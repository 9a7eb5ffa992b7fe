"""Draft trees of any shape: what a tree verifier is given, and what it returns.

A tree is N places for drafted tokens, numbered so that a parent comes before its children; siblings are in
the order in which they were drawn, and two of them may be the same token: then the first has the children.
Paths of one length are trees (`of_paths`), and so are drafts that stopped early and stems that branch late:
places may be empty.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from verifiers.arrays import Array, arange_like, filled, kept, namespace, pick, pick_each
from verifiers.errors import InvalidInputError
from verifiers.interface import DecisionSource, Drafts, Verdict

ROOT = -1
"""The parent of a token that follows the context itself."""

EMPTY = -2
"""The parent of a place without a token."""


class Siblings(Enum):
    """The law by which the children of a node are drawn, in their order, from the row q of the node.

    How many there are may depend on all tokens that are not below the node, but, except under `BEAM`, not on
    the siblings themselves.
    """

    INDEPENDENT = "independent"
    """Independent and identically distributed: the same token may come twice."""

    PATHS = "paths"
    """As `INDEPENDENT`, in trees that branch once, into paths which each end by their own tokens alone."""

    DISTINCT = "distinct"
    """Without replacement; when every token with q > 0 has been drawn, the round starts anew."""

    TOP_AND_SAMPLED = "top-and-sampled"
    """All but the last are the most likely tokens, the last is sampled from q without these."""

    TOP = "top"
    """The most likely tokens, or others that no random number chose: one tree, given the models."""

    BEAM = "beam"
    """Without replacement; whether there is one more may depend on the siblings before it, as in a stochastic
    beam (2402.14160), where after a likely first child a second one is rare."""


@dataclass(frozen=True)
class TreeDrafts:
    """Draft trees and both models' rows at their nodes, for B independent requests.

    ``tokens`` int [B, N]; ``parents`` int [B, N]: the place of the parent, `ROOT`, or `EMPTY`.
    ``draft_probs`` and ``target_probs`` [B, N+1, V]: row 0 is that of the root, row 1 + i follows place i.
    Rows are probability mass and sum to one; those of empty places mean nothing, nor does q where nothing
    was drafted. A place is also empty if its token is none of 0..V-1, or its parent no earlier place.
    Raises `InvalidInputError` when the shapes disagree, and for N = 0.
    """

    tokens: Array
    parents: Array
    draft_probs: Array
    target_probs: Array

    def __post_init__(self) -> None:
        if len(self.tokens.shape) != 2:
            raise InvalidInputError(f"tokens: expected shape [B, N], got {tuple(self.tokens.shape)}")
        if not self.places:
            raise InvalidInputError(
                f"tokens: expected at least one place, got shape {tuple(self.tokens.shape)}; "
                "where nothing was drafted give one with the parent EMPTY"
            )
        if tuple(self.parents.shape) != tuple(self.tokens.shape):
            raise InvalidInputError(
                f"parents: expected shape {tuple(self.tokens.shape)} to match tokens, "
                f"got {tuple(self.parents.shape)}"
            )
        batch, places = self.tokens.shape
        for name in ("draft_probs", "target_probs"):
            shape = tuple(getattr(self, name).shape)
            if len(shape) != 3 or shape[:2] != (batch, places + 1):
                raise InvalidInputError(f"{name}: expected shape [{batch}, {places + 1}, V], got {shape}")
        if self.draft_probs.shape != self.target_probs.shape:
            raise InvalidInputError(
                f"draft_probs: expected shape {tuple(self.target_probs.shape)} to match target_probs, "
                f"got {tuple(self.draft_probs.shape)}"
            )

    @property
    def batch(self) -> int:
        """Number of requests, B."""
        return int(self.tokens.shape[0])

    @property
    def places(self) -> int:
        """Number of places for drafted tokens, N."""
        return int(self.tokens.shape[1])

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.target_probs.shape[2])

    @property
    def present(self) -> Array:
        """Whether there is a token, bool [B, N]; below an empty place nothing counts."""
        is_token = (self.tokens >= 0) & (self.tokens < self.vocab_size)
        return is_token & (self.parents >= ROOT) & (self.parents < arange_like(self.parents, self.places))


@dataclass(frozen=True)
class TreeVerdict:
    """What one verification step emits, for B requests.

    ``node`` int [B]: the last accepted place, `ROOT` where none was; ``next_token`` int [B]: the correction
    or bonus token; ``drafts``: what was verified.
    """

    node: Array
    next_token: Array
    drafts: TreeDrafts

    @property
    def emitted(self) -> Array:
        """Emitted tokens, int [B, N+1]: those from the root to ``node``, ``next_token``, then -1."""
        xp = namespace(self.next_token)
        way, tau = way_to(self.drafts.parents, self.node)
        padded = xp.concat([pick_each(self.drafts.tokens, kept(way >= 0, way)), way[:, :1]], axis=1)
        position = arange_like(padded, padded.shape[1])[None, :]
        tail = xp.where(position == tau[:, None], self.next_token[:, None], filled(padded, -1))
        return xp.where(position < tau[:, None], padded, tail)


def way_to(parents: Array, node: Array) -> tuple[Array, Array]:
    """Return the places from the root to ``node`` int [B], padded with it, int [B, N], and their number [B].

    ``parents`` int [B, N]; `ROOT` is no place.
    """
    xp = namespace(parents)
    columns = []
    for _ in range(parents.shape[1]):
        columns.append(node)
        node = xp.where(node >= 0, above(parents, node), node)
    upwards = xp.stack(columns, axis=1)
    length = xp.sum(xp.astype(upwards >= 0, xp.int64), axis=1)
    back = length[:, None] - 1 - arange_like(parents, parents.shape[1])[None, :]
    return xp.take_along_axis(upwards, kept(back > 0, back), axis=1), length


def above(values: Array, node: Array) -> Array:
    """Return ``values[b, node[b]]``, [B] from [B, N]; the first one's where there is no such place."""
    return pick(values, kept(node >= 0, node))


def of_paths(drafts: Drafts, draft_lengths: Array | None = None) -> TreeDrafts:
    """Return K paths of L tokens as K L places, depth by depth.

    The children of a place are the tokens of all paths that pass it, in their order, equal ones included; of
    equal siblings the first has the children, the others have none. ``draft_lengths`` int [B, K], 0..L: path
    k of request b ends after so many tokens, the others mean nothing.
    """
    xp = namespace(drafts.tokens)
    _, paths, length = drafts.tokens.shape
    same = xp.ones_like(drafts.tokens[:, :, None, 0] == drafts.tokens[:, None, :, 0])
    first = filled(drafts.tokens[:, :, 0], ROOT)
    lengths = filled(first, length) if draft_lengths is None else draft_lengths
    tokens, parents = [], []
    for depth in range(length):
        token, present = drafts.tokens[:, :, depth], lengths > depth
        same = same & (token[:, :, None] == token[:, None, :]) & present[:, None, :]
        tokens.append(token)
        parents.append(xp.where(present, first, EMPTY))
        first = depth * paths + xp.argmax(xp.astype(same, xp.int64), axis=-1)
    row = drafts.draft_probs[:, :, length - 1] * 0

    def rows(root: Array, below: list[Array]) -> Array:
        return xp.concat([root[:, None], *below], axis=1)

    target = [drafts.target_probs[:, :, depth] for depth in range(1, length + 1)]
    draft = [*(drafts.draft_probs[:, :, depth] for depth in range(1, length)), row]
    return TreeDrafts(
        xp.concat(tokens, axis=1),
        xp.concat(parents, axis=1),
        rows(drafts.draft_probs[:, 0, 0], draft),
        rows(drafts.target_probs[:, 0, 0], target),
    )


def verdict_of_paths(verdict: TreeVerdict, tokens: Array) -> Verdict:
    """Return the verdict on `of_paths` of ``tokens`` int [B, K, L] as one on the paths."""
    node, paths = verdict.node, tokens.shape[1]
    return Verdict(node // paths + 1, kept(node >= 0, node % paths), verdict.next_token, tokens)


@runtime_checkable
class TreeVerifier(Protocol):
    """A verification rule for draft trees."""

    def verify_tree(self, drafts: TreeDrafts, decisions: DecisionSource) -> TreeVerdict:
        """Verify a batch of draft trees, taking every random decision from ``decisions``."""
        ...


class TreeRule(TreeVerifier, Protocol):
    """A tree verifier that says under which laws of siblings it is lossless."""

    @property
    def accepts(self) -> frozenset[Siblings]:
        """The laws by which siblings may be drawn."""
        ...
