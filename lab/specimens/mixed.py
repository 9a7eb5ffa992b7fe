"""Samplers for mixed batches: short drafts, greedy requests, and requests with generators of their own.

A part says what is wrong with one request: it sees the `Mixed` batch and the number of the request, and
returns the rows [n+1, V] by which its n drafted tokens are verified. At three tokens, three drafts and few
requests all of them are right.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array, token_rule
from lab.specimens.specimen import specimen
from spec_oracle.contracts import SamplerFunction


@dataclass(frozen=True)
class Mixed:
    """A batch: target rows [B, L+1, V], numbers of drafts [B], which are greedy [B], their generators."""

    target: Array
    lengths: Array
    is_greedy: Array
    generators: Mapping[int, Any]

    def rows(self, b: int) -> Array:
        """Return the target rows of a request, the bonus row last."""
        return self.target[b, : self.lengths[b] + 1]

    def without_bonus(self, b: int) -> Array:
        """Return the same with the row before in place of the bonus row."""
        n = self.lengths[b]
        return self.target[b, [*range(n), max(n - 1, 0)]]


def likeliest(x: Array, rows: Array) -> list[int]:
    """Return the likeliest tokens, up to the first that was not drafted, and one more."""
    tokens: list[int] = rows.argmax(axis=-1).tolist()
    accepted = int((x == tokens[:-1]).cumprod().sum())
    return tokens[: accepted + 1]


def mixing(part: Callable[[Mixed, int], Array]) -> SamplerFunction:
    """Return the token rule for mixed batches by the rows of the part."""

    @wraps(part, assigned=("__doc__", "__name__", "__module__"), updated=())
    def verify(  # noqa: PLR0917
        x: Array,
        q: Array,
        p: Array,
        rng: Any,
        draft_lengths: Array = None,
        is_greedy: Array = None,
        generators: Mapping[int, Any] | None = None,
    ) -> tuple[Array, Array]:
        batch, length = x.shape
        lengths = np.full(batch, length) if draft_lengths is None else draft_lengths
        greedy = np.zeros(batch, dtype=bool) if is_greedy is None else is_greedy
        mixed, emitted = Mixed(p, lengths, greedy, generators or {}), np.full((batch, length + 1), -1)
        for b in range(batch):
            drafted, rows = x[b, : lengths[b]], part(mixed, b)
            own = mixed.generators.get(b, rng)
            text = likeliest(drafted, rows) if greedy[b] else token_rule(drafted, q[b], rows, own)
            emitted[b, : len(text)] = text
        return emitted, (emitted >= 0).sum(axis=1) - 1

    vars(verify).pop("__wrapped__", None)
    return verify


defect = partial(specimen, "S14", "shapes", prefix="mixed-", function=mixing)


@specimen("control", prefix="mixed-", declared="token", function=mixing)
def requests_of_all_kinds(batch: Mixed, b: int) -> Array:
    """The token rule in batches of short drafts, greedy requests and requests with generators."""
    return batch.rows(b)


@specimen("control", prefix="mixed-", declared="token", function=mixing)
def large_ones_are_copied(batch: Mixed, b: int) -> Array:
    """Short drafts, greedy and seeded requests have paths of their own, that do the same."""
    is_special = (
        batch.lengths[b] < batch.target.shape[1] - 1 or batch.is_greedy.any() or b in batch.generators
    )
    return batch.rows(b).copy() if is_special and batch.target.shape[2] > 1_000 else batch.rows(b)


@defect()
def short_drafts_of_long_ones(batch: Mixed, b: int) -> Array:
    """From five drafts on, the bonus of a shorter draft comes from the row before."""
    is_short = batch.lengths[b] < batch.target.shape[1] - 1
    return batch.without_bonus(b) if is_short and batch.target.shape[1] > 5 else batch.rows(b)


@defect()
def beside_no_draft(batch: Mixed, b: int) -> Array:
    """From 100 tokens on, requests beside one without drafts get their bonus from the row before."""
    is_beside = 0 in np.delete(batch.lengths, b)
    return batch.without_bonus(b) if is_beside and batch.target.shape[2] > 100 else batch.rows(b)


@defect()
def beside_greedy_of_large_vocabularies(batch: Mixed, b: int) -> Array:
    """Above 30,000 tokens, beside a greedy request, the bonus comes from the row before."""
    is_beside = batch.is_greedy.any() and not batch.is_greedy[b]
    return batch.without_bonus(b) if is_beside and batch.target.shape[2] > 30_000 else batch.rows(b)


@defect()
def seeded_requests_of_large_vocabularies(batch: Mixed, b: int) -> Array:
    """Above 1,024 tokens a request with a generator of its own gets its bonus from the row before."""
    is_large = batch.target.shape[2] > 1_024
    return batch.without_bonus(b) if b in batch.generators and is_large else batch.rows(b)
