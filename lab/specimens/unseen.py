"""Token rules by a generator of their own, which nobody can trace, wrong at full vocabularies.

A part changes rows and drafts, or what is emitted; at up to 1,024 tokens all of them are right.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array
from lab.specimens.foreign.uniforms import token_by_uniforms
from lab.specimens.sharing import Own
from lab.specimens.specimen import specimen
from spec_oracle.contracts import SamplerFunction

_LARGE = 30_000
"""Tokens from which on a vocabulary is large."""


def unseen(part: Callable[[Array, Array, Array], None]) -> SamplerFunction:
    """Return the token rule by an own generator, on rows of float32 that the part has changed in place."""
    own = Own()

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        q, p = q.copy(), p.copy()
        part(x, q, p)
        shape = (len(x), x.shape[1] + 1)
        uniforms = own(np.arange(shape[0] * shape[1]).reshape(shape), shape[0] * shape[1])
        return token_by_uniforms(x, q, p, uniforms, dtype=np.float64)

    return verify


def emitting(part: Callable[[Array, int], Array]) -> SamplerFunction:
    """Return the token rule by an own generator, with the tokens that the part returns, given V."""
    rule = unseen(lambda x, q, p: None)

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        tokens, accepted = rule(x, q, p, generator)
        return np.where(tokens < 0, tokens, part(tokens, p.shape[-1])), accepted

    return verify


def _along(rows: Array, x: Array) -> Array:
    return np.take_along_axis(rows, x[..., None], 2)


@specimen("S3", "shapes", prefix="unseen-", function=unseen, declared="token")
def first_half_of_the_vocabulary(x: Array, q: Array, p: Array) -> None:
    """Of a large vocabulary the kernel reads the first half."""
    vocab = p.shape[-1]
    if vocab > _LARGE:
        p[..., vocab // 2 :] = 0


@specimen("S2", "shapes", prefix="unseen-", function=emitting, declared="token")
def ids_of_sixteen_bits(tokens: Array, vocab: int) -> Array:
    """Ids are kept in 16 bits."""
    return tokens & 0xFFFF


@specimen("S2", "shapes", prefix="unseen-", function=emitting, declared="token")
def even_ids_of_large_vocabularies(tokens: Array, vocab: int) -> Array:
    """Uniforms of 16 bits reach every second token of a large vocabulary."""
    return tokens & ~1 if vocab > 1 << 16 else tokens


@specimen("control", prefix="unseen-", function=unseen, declared="token", beside=("streams",))
def whole_rows(x: Array, q: Array, p: Array) -> None:
    """The same rule by its own generator, on unchanged rows."""


@specimen("control", prefix="unseen-", function=unseen, declared="token", beside=("streams",))
def blocks_of_8192_tokens(x: Array, q: Array, p: Array) -> None:
    """A large vocabulary is read in blocks of 8,192 tokens, and a rest."""
    if p.shape[-1] > _LARGE:
        p[...] = np.concatenate(np.split(p, range(8192, p.shape[-1], 8192), axis=-1), axis=-1)


@specimen("control", prefix="unseen-", function=emitting, declared="token", beside=("streams",))
def ids_of_seventeen_bits(tokens: Array, vocab: int) -> Array:
    """Ids are kept in 32 bits."""
    return tokens.astype(np.int32).astype(np.int64)
