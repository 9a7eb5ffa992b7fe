"""Rows: the next-token distribution after each place of a draft tree, wherever it lies in memory.

A rule asks for whole rows one place at a time, and for entries at drafted tokens. So no rule copies the rows
of all places, and one form of a rule serves chains, paths and trees.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from verifiers.arrays import Array, arange_like, namespace, pick, rows_at
from verifiers.errors import InvalidInputError

ROOT = -1
"""The place of the context itself, which comes before all drafted tokens."""


class Rows(Protocol):
    """The rows of B requests; N places, and `ROOT`. Probability mass, in the type that the model gave."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        ...

    def row(self, place: Array | int, out: Array = None) -> Array:
        """Return the row [B, V] after a place: int [B], or one number for all requests, which gives a view.

        In ``out`` [B, V] if it is given, of the type of the rows, and torch can put them there.
        """
        ...

    def entries(self, place: Array, token: Array) -> Array:
        """Return the entries [B, M] of ``token`` int [B, M] in the rows after ``place`` int [B or 1, M]."""
        ...

    def dense(self) -> Array:
        """Return all rows, [B, N+1, V]: the root's first, then that of each place."""
        ...

    def take(self, requests: Array) -> "Rows":
        """Return the rows of some requests, int [R]."""
        ...

    def converted(self, probs: Callable[[Array], Array], ids: Callable[[Array], Array]) -> "Rows":
        """Return the rows with ``probs`` applied to probabilities, ``ids`` to arrays of integers."""
        ...


@dataclass(frozen=True)
class PathRows:
    """Rows along K paths: ``values`` [B, K, M, V], M = L + 1 of the target, M = L of the draft.

    Place d K + k is token d of path k. The draft has no row after the last token of a path.
    """

    values: Array
    draft_length: int

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.values.shape[3])

    def _at(self, place: Array) -> tuple[Array | int, Array]:
        """Return the path and the number of tokens before the row; `ROOT` is before the last path."""
        paths = self.values.shape[1]
        return (0, place + 1) if paths == 1 else (place % paths, place // paths + 1)

    def row(self, place: Array | int, out: Array = None) -> Array:
        """Return the row [B, V] after a place; see `Rows`."""
        if isinstance(place, int):
            paths = self.values.shape[1]
            return self.values[:, place % paths, min(place // paths + 1, self.values.shape[2] - 1)]
        path, depth = self._at(place)
        depths = self.values.shape[2]
        if depths <= self.draft_length:  # of the draft: any row stands behind the last token
            depth = namespace(depth).where(depth < depths, depth, depths - 1)
        return rows_at(self.values, path, depth, out=out)

    def entries(self, place: Array, token: Array) -> Array:
        """Return the entry of each token in the row after its place; see `Rows`."""
        path, depth = self._at(place)
        return self.values[arange_like(token, token.shape[0])[:, None], path, depth, token]

    def dense(self) -> Array:
        """Return all rows, [B, N+1, V]; see `Rows`."""
        xp = namespace(self.values)
        depths = self.values.shape[2]
        below = [self.values[:, :, depth] for depth in range(1, depths)]
        if depths <= self.draft_length:
            below.append(self.values[:, :, -1])
        return xp.concat([self.values[:, :1, 0], *below], axis=1)

    def take(self, requests: Array) -> "PathRows":
        """Return the rows of some requests; see `Rows`."""
        return replace(self, values=self.values[requests])

    def converted(self, probs: Callable[[Array], Array], ids: Callable[[Array], Array]) -> "PathRows":
        """Return the rows in other arrays; see `Rows`."""
        del ids
        return replace(self, values=probs(self.values))


@dataclass(frozen=True)
class TreeRows:
    """Rows of a tree, ``values`` [B, N+1, V]: row 0 is that of the root, row 1 + i follows place i."""

    values: Array

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.values.shape[2])

    def row(self, place: Array | int, out: Array = None) -> Array:
        """Return the row [B, V] after a place; see `Rows`."""
        if isinstance(place, int):
            return self.values[:, place + 1]
        return pick(self.values, place + 1, out=out)

    def entries(self, place: Array, token: Array) -> Array:
        """Return the entry of each token in the row after its place; see `Rows`."""
        return self.values[arange_like(token, token.shape[0])[:, None], place + 1, token]

    def dense(self) -> Array:
        """Return all rows; see `Rows`."""
        return self.values

    def take(self, requests: Array) -> "TreeRows":
        """Return the rows of some requests; see `Rows`."""
        return replace(self, values=self.values[requests])

    def converted(self, probs: Callable[[Array], Array], ids: Callable[[Array], Array]) -> "TreeRows":
        """Return the rows in other arrays; see `Rows`."""
        del ids
        return replace(self, values=probs(self.values))


@dataclass(frozen=True)
class TableRows:
    """Rows that many requests share: a ``table`` [M, V], and ``index`` int [B, N+1] of the rows in it."""

    table: Array
    index: Array

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.table.shape[1])

    def row(self, place: Array | int, out: Array = None) -> Array:
        """Return the row [B, V] after a place; see `Rows`."""
        del out
        return self.table[self.index[:, place + 1] if isinstance(place, int) else pick(self.index, place + 1)]

    def entries(self, place: Array, token: Array) -> Array:
        """Return the entry of each token in the row after its place; see `Rows`."""
        return self.table[self.index[arange_like(token, token.shape[0])[:, None], place + 1], token]

    def dense(self) -> Array:
        """Return all rows, [B, N+1, V]; see `Rows`."""
        return self.table[self.index]

    def take(self, requests: Array) -> "TableRows":
        """Return the rows of some requests; see `Rows`."""
        return TableRows(self.table, self.index[requests])

    def converted(self, probs: Callable[[Array], Array], ids: Callable[[Array], Array]) -> "TableRows":
        """Return the rows in other arrays; see `Rows`."""
        return TableRows(probs(self.table), ids(self.index))


@dataclass(frozen=True)
class Paths:
    """K draft paths of L tokens and both models' rows along them, as arrays, for B independent requests.

    ``tokens`` int [B, K, L]; ``draft_probs`` [B, K, L, V], q(. | context of that position on that path);
    ``target_probs`` [B, K, L+1, V]. Rows are probability mass and sum to one. Paths that share a prefix have
    equal rows there. Raises `InvalidInputError` when the shapes disagree.
    """

    tokens: Array
    draft_probs: Array
    target_probs: Array

    def __post_init__(self) -> None:
        if len(self.tokens.shape) != 3:
            raise InvalidInputError(f"tokens: expected shape [B, K, L], got {tuple(self.tokens.shape)}")
        if len(self.draft_probs.shape) != 4:
            raise InvalidInputError(
                f"draft_probs: expected shape [B, K, L, V], got {tuple(self.draft_probs.shape)}"
            )
        batch, paths, length = self.tokens.shape
        vocab = self.draft_probs.shape[-1]
        for name, rows in (("draft_probs", length), ("target_probs", length + 1)):
            expected, found = (batch, paths, rows, vocab), tuple(getattr(self, name).shape)
            if found != expected:
                raise InvalidInputError(f"{name}: expected shape {expected} to match tokens, got {found}")

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """The three arrays, as `Drafts.of_paths` takes them."""
        return self.tokens, self.draft_probs, self.target_probs

    def take(self, requests: Array) -> "Paths":
        """Return the requests int [R], in this order."""
        return Paths(*(array[requests] for array in self.arrays))

    @property
    def batch(self) -> int:
        """Number of requests, B."""
        return int(self.tokens.shape[0])

    @property
    def num_paths(self) -> int:
        """Number of draft paths, K."""
        return int(self.tokens.shape[1])

    @property
    def draft_length(self) -> int:
        """Tokens per draft path, L."""
        return int(self.tokens.shape[2])

    @property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        return int(self.draft_probs.shape[3])
