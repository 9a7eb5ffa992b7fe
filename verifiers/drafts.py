"""Drafts: a batch of draft trees. Paths are trees, and so are chains.

A tree is N places for drafted tokens, numbered so that a parent comes before its children; siblings are in
the order in which they were drawn, and two of them may be the same token: then the first has the children.
Places may be empty, so drafts that stopped early and stems that branch late are trees, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Never

from verifiers.arrays import Array, arange_like, filled, kept, namespace, pick
from verifiers.errors import InvalidInputError
from verifiers.rows import ROOT, PathRows, Paths, Rows, TreeRows

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
    """All but the last are the most likely tokens (ties: smaller token first), the last is sampled from q
    without these, or from q itself when nothing is left (`rules.top_draft`)."""

    TOP = "top"
    """The most likely tokens, or others that no random number chose: one tree, given the models."""

    BEAM = "beam"
    """Without replacement; whether there is one more may depend on the siblings before it, as in a stochastic
    beam (2402.14160), where after a likely first child a second one is rare."""


@dataclass(frozen=True)
class Children:
    """Drafts that follow a node, for B requests with at most W drafts there.

    ``places`` and ``tokens`` int [B, W]; ``present`` bool [B, W]: the others mean nothing.
    """

    places: Array
    tokens: Array
    present: Array


@dataclass(frozen=True)
class Path:
    """One path of every request, from the root on: at most L tokens.

    ``tokens`` int [B, L]; ``places`` int [B, L], or [1, L] where they are the same for all requests, which
    then are ``step`` apart; ``length`` int [B] are the tokens that each has, None where all have L.
    """

    tokens: Array
    places: Array
    length: Array | None = None
    step: int = 0

    @property
    def lengths(self) -> Array:
        """The tokens that each path has, int [B]."""
        if self.length is not None:
            return self.length
        return filled(arange_like(self.tokens, self.tokens.shape[0]), self.tokens.shape[1])

    @property
    def present(self) -> Array:
        """Whether the path has a token, bool [B, L]."""
        return arange_like(self.tokens, self.tokens.shape[1])[None, :] < self.lengths[:, None]

    @property
    def contexts(self) -> Array:
        """The place before each token, int [B, L] or [1, L]."""
        if self.step == 1:
            return self.places - 1
        xp = namespace(self.places)
        return xp.concat([filled(self.places[:, :1], ROOT), self.places[:, :-1]], axis=1)

    def after(self, count: int) -> Array | int:
        """Return the place after ``count`` tokens: one number where it is the same for all requests."""
        if count == 0:
            return ROOT
        return (count - 1) * self.step if self.step else self.places[:, count - 1]

    def node(self, count: Array) -> Array:
        """Return the place after ``count`` int [B] tokens."""
        if self.step == 1:
            return count - 1
        xp, last = namespace(count), count - 1
        at = last * self.step if self.step else pick(self.places, kept(last >= 0, last))
        return xp.where(last >= 0, at, ROOT)


def _moved(name: str) -> property:
    """Return an attribute of paths, which drafts once were: it raises, and says what to write."""

    def refuse(_: object) -> Never:
        raise AttributeError(
            f"drafts.{name}: drafts are trees; a rule for paths begins with `paths = drafts.paths`, reads "
            "paths.tokens [B, K, L], paths.draft_probs and paths.target_probs; it ends with "
            "`return Verdict.on_paths(drafts, path, num_accepted, next_token)`"
        )

    return property(refuse)


@dataclass(frozen=True)
class Drafts:
    """Draft trees and both models' rows at their places, for B independent requests.

    ``tokens`` int [B, N]; ``parents`` int [B, N]: the place of the parent, `ROOT`, or `EMPTY`; ``draft`` and
    ``target``: q and p after each place (`Rows`). Rows of empty places mean nothing, nor does q where nothing
    was drafted. A place is also empty if its token is none of 0..V-1, or its parent no earlier place.
    ``num_paths``: K where the places are those of K paths of one length, place d K + k for token d of path k;
    None for other trees. At most ``max_depth`` tokens are on a path, and ``max_children`` drafts follow a
    place, of all trees that the drafter makes; None: N. A rule takes its decisions for so many, whatever the
    trees of the batch, so that a request gets the same in any batch. Raises `InvalidInputError` when the
    shapes disagree, and for N = 0.
    """

    tokens: Array
    parents: Array
    draft: Rows
    target: Rows
    num_paths: int | None = None
    max_depth: int | None = None
    max_children: int | None = None

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

    @classmethod
    def of_tree(  # noqa: PLR0917
        cls,
        tokens: Array,
        parents: Array,
        draft_probs: Array,
        target_probs: Array,
        max_depth: int | None = None,
        max_children: int | None = None,
    ) -> "Drafts":
        """Return trees given by arrays: both models' rows are [B, N+1, V], the root's row first.

        Say how deep and how wide the drafter's trees are: verification takes the less time, the less they
        are. Take no less than a tree has: what is deeper, or later among siblings, is not looked at.
        """
        rows = TreeRows(draft_probs), TreeRows(target_probs)
        drafts = cls(tokens, parents, *rows, None, max_depth, max_children)
        batch, places = tokens.shape
        for name, rows in (("draft_probs", draft_probs), ("target_probs", target_probs)):
            shape = tuple(rows.shape)
            if len(shape) != 3 or shape[:2] != (batch, places + 1):
                raise InvalidInputError(f"{name}: expected shape [{batch}, {places + 1}, V], got {shape}")
        if draft_probs.shape != target_probs.shape:
            raise InvalidInputError(
                f"draft_probs: expected shape {tuple(target_probs.shape)} to match target_probs, "
                f"got {tuple(draft_probs.shape)}"
            )
        return drafts

    @classmethod
    def of_paths(
        cls, tokens: Array, draft_probs: Array, target_probs: Array, draft_lengths: Array | None = None
    ) -> "Drafts":
        """Return K paths of L tokens, of which no row is copied; a chain is K = 1.

        ``tokens`` int [B, K, L], ``draft_probs`` [B, K, L, V], ``target_probs`` [B, K, L+1, V]. The children
        of a place are the tokens of all paths that pass it, in their order, equal ones included; of equal
        siblings the first has the children, the others have none. ``draft_lengths`` int [B, K], 0..L: path k
        of request b ends after so many tokens, the others mean nothing.
        """
        paths = Paths(tokens, draft_probs, target_probs)
        length = paths.draft_length
        return cls(
            namespace(tokens).permute_dims(tokens, (0, 2, 1)).reshape(paths.batch, -1),
            parents_of_paths(tokens, draft_lengths),
            PathRows(draft_probs, length),
            PathRows(target_probs, length),
            paths.num_paths if draft_lengths is None else None,
            length,
            paths.num_paths,
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
        return self.target.vocab_size

    draft_probs, target_probs, draft_length = map(_moved, ("draft_probs", "target_probs", "draft_length"))

    @cached_property
    def _is_token(self) -> Array:
        return (self.tokens >= 0) & (self.tokens < self.vocab_size)

    @cached_property
    def _ids(self) -> Array:
        """The tokens, and 0 for what is none, so that rows can be read at them."""
        return kept(self._is_token, self.tokens)

    @cached_property
    def present(self) -> Array:
        """Whether there is a token, bool [B, N]; below an empty place nothing counts."""
        has_parent = (self.parents >= ROOT) & (self.parents < arange_like(self.parents, self.places))
        return self._is_token & has_parent

    @property
    def depth(self) -> int:
        """Tokens of the longest path, L: known, or N."""
        return self.places // self.num_paths if self.num_paths is not None else self.max_depth or self.places

    @property
    def fan_out(self) -> int:
        """The most drafts that follow one place, or the root: known, or N."""
        return self.num_paths or self.max_children or self.places

    def children(self, node: Array, depth: int) -> Children:
        """Return the drafts after a place ``node`` int [B], before which there are ``depth`` tokens."""
        xp, paths = namespace(self.tokens), self.num_paths
        level = slice(None) if paths is None else slice(depth * paths, (depth + 1) * paths)
        tokens, here = self._ids[:, level], self.present[:, level] & (self.parents[:, level] == node[:, None])
        if self.fan_out < here.shape[1]:
            first = xp.argsort(xp.astype(~here, xp.int64), axis=1, stable=True)[:, : self.fan_out]
            tokens, here = (xp.take_along_axis(of, first, axis=1) for of in (tokens, here))
            return Children(first, tokens, here)
        places = arange_like(self.tokens, self.places)[None, level]
        return Children(xp.broadcast_to(places, tokens.shape), tokens, here)

    def first_path(self) -> Path:
        """Return the path of first children, which may end early in trees; its law is that of a path."""
        paths = self.num_paths
        if paths is not None:
            places = arange_like(self.tokens, self.places)[None, ::paths]
            return Path(self.tokens if paths == 1 else self.tokens[:, ::paths], places, None, paths)
        xp = namespace(self.tokens)
        leaf = filled(self.tokens[:, 0], ROOT)
        for place in range(self.places):  # a parent comes before its children
            follows = self.present[:, place] & (self.parents[:, place] == leaf)
            leaf = xp.where(follows, place, leaf)
        return self.path_to(leaf)

    def path_to(self, node: Array) -> Path:
        """Return the path to a place ``node`` int [B], or `ROOT`; L is the `depth` of the trees."""
        if self.num_paths == 1:
            return replace(self.first_path(), length=node + 1)
        xp, paths, length = namespace(self.tokens), self.num_paths, self.depth
        every = arange_like(node, max(1, length))[None, :]
        if paths is not None:
            count = node // paths + 1
            places = every * paths + (node % paths)[:, None]
        else:
            columns = []
            for _ in range(max(1, length)):
                columns.append(node)
                node = xp.where(node >= 0, pick(self.parents, kept(node >= 0, node)), node)
            upwards = xp.stack(columns, axis=1)
            count = xp.sum(xp.astype(upwards >= 0, xp.int64), axis=1)
            back = count[:, None] - 1 - every
            places = xp.take_along_axis(upwards, kept(back > 0, back), axis=1)
            places = kept(places >= 0, places)
        return Path(xp.take_along_axis(self.tokens, places, axis=1), places, count)

    def take(self, requests: Array) -> "Drafts":
        """Return the drafts of some requests, int [R]."""
        return replace(
            self,
            tokens=self.tokens[requests],
            parents=self.parents[requests],
            draft=self.draft.take(requests),
            target=self.target.take(requests),
        )

    def converted(self, probs: Callable[[Array], Array], ids: Callable[[Array], Array]) -> "Drafts":
        """Return the drafts with ``probs`` applied to their probabilities, ``ids`` to their integers."""
        return replace(
            self,
            tokens=ids(self.tokens),
            parents=ids(self.parents),
            draft=self.draft.converted(probs, ids),
            target=self.target.converted(probs, ids),
        )

    @property
    def paths(self) -> Paths:
        """The arrays of K paths of one length; raises `InvalidInputError` for other trees."""
        if self.num_paths is None:
            raise InvalidInputError(
                "drafts: expected paths of one length, as Drafts.of_paths makes them without draft_lengths; "
                "read trees through tokens, parents, draft and target, or do not declare to accept them"
            )
        xp, count = namespace(self.tokens), self.num_paths
        tokens = xp.permute_dims(self.tokens.reshape(self.batch, -1, count), (0, 2, 1))
        draft, target = (
            rows.values if isinstance(rows, PathRows) else self._along_paths(rows.dense())
            for rows in (self.draft, self.target)
        )
        return Paths(tokens, draft[:, :, : tokens.shape[2]], target)

    def _along_paths(self, rows: Array) -> Array:
        """Return rows [B, N+1, V] of all places as rows [B, K, L+1, V] along the paths."""
        xp, count = namespace(rows), int(self.num_paths or 1)
        root = xp.stack([rows[:, :1]] * count, axis=1)
        below = rows[:, 1:].reshape(self.batch, -1, count, rows.shape[2])
        return xp.concat([root, xp.permute_dims(below, (0, 2, 1, 3))], axis=2)


def parents_of_paths(tokens: Array, draft_lengths: Array | None = None) -> Array:
    """Return the parents, int [B, L K], of the places of paths ``tokens`` int [B, K, L]."""
    xp = namespace(tokens)
    _, paths, length = tokens.shape
    if paths == 1 and draft_lengths is None:
        return xp.broadcast_to((arange_like(tokens, length) - 1)[None, :], (tokens.shape[0], length))
    same = xp.ones_like(tokens[:, :, None, 0] == tokens[:, None, :, 0])
    first, parents = filled(tokens[:, :, 0], ROOT), []
    for depth in range(length):
        token = tokens[:, :, depth]
        same = same & (token[:, :, None] == token[:, None, :])
        if draft_lengths is None:
            parents.append(first)
        else:
            same = same & (draft_lengths > depth)[:, None, :]
            parents.append(xp.where(draft_lengths > depth, first, EMPTY))
        first = depth * paths + xp.argmax(xp.astype(same, xp.int64), axis=-1)
    return xp.concat(parents, axis=1)
