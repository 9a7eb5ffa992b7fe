"""Defects of one shape, and right code with the same special path.

A part changes, in copies of its own, the rows [B, L, V] and [B, L+1, V] that the token rule gets to see, or
says what becomes of the tokens [B, L+1] that the rule emits. At three tokens, three drafts and one request,
in float64 with contiguous arrays, all of them are right.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeAlias

import numpy as np

import verifiers
from lab.specimens.foreign.rows import Array, token_by_request
from lab.specimens.specimen import specimen, specimens_of
from spec_oracle.contracts import SamplerFunction, as_sampler

Rows: TypeAlias = tuple[Array, Array, Array]


def seeing(
    part: Callable[[Array, Array, Array], Rows], rule: SamplerFunction = token_by_request
) -> SamplerFunction:
    """Return the rule on the tokens and rows that the part returns."""

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        return rule(*part(x, q.copy(), p.copy()), rng)

    return verify


def judging(part: Callable[[Array, Array, Array], None]) -> SamplerFunction:
    """Return the token rule on rows that the part has changed in place."""

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        q, p = q.copy(), p.copy()
        part(x, q, p)
        return token_by_request(x, q, p, rng)

    return verify


def without_bonus(where: Callable[[Array, Array], bool]) -> SamplerFunction:
    """Return the token rule whose bonus comes from the row before where tokens and rows are so."""

    @wraps(where)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        if where(x, p):
            p = p[:, [*range(x.shape[1]), -2]]
        return token_by_request(x, q, p, rng)

    return verify


def on_target(part: Callable[[Array], Array]) -> SamplerFunction:
    """Return the token rule on target rows of which the part sees the memory."""

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        return token_by_request(x, q, part(p), rng)

    return verify


def emitting(part: Callable[[Array, int], Array]) -> SamplerFunction:
    """Return the token rule with the emitted tokens that the part returns, given tokens and V."""

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        tokens, accepted = token_by_request(x, q, p, rng)
        return np.where(tokens < 0, tokens, part(tokens, p.shape[-1])), accepted

    return verify


defect = partial(specimen, prefix="shape-", function=judging)
siblings = partial(seeing, rule=as_sampler(verifiers.get("recursive_rejection")))


def _unlike(rows: Array) -> Array:
    """Return rows in which every token has the probability of its neighbour."""
    return np.roll(rows, 1, axis=-1)


def _law(weights: Array) -> Array:
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(weights.dtype)


def _pieces(rows: Array, size: int, axis: int) -> Array:
    """Return the same rows, put together of pieces of that size."""
    return np.concatenate(np.split(rows, range(size, rows.shape[axis], size), axis=axis), axis=axis)


# The bonus comes from the row before, at some shapes.

specimens_of("shapes", function=without_bonus)(
    shape_bonus_of_large_vocabularies=(
        "S7: Above 1,000 tokens the bonus comes from the row before",
        lambda x, p: p.shape[-1] > 1000,
    ),
    shape_two_or_three_requests=(
        "S8: A kernel for batches of two and three takes the bonus from the row before",
        lambda x, p: len(x) in {2, 3},
    ),
)

for _dtype in ("float32", "float16"):
    specimens_of("shapes", function=without_bonus, dtypes=(_dtype,))(
        **{
            f"shape_bonus_of_{_dtype}": (
                f"S5: For rows of {_dtype} the bonus comes from the row before",
                lambda x, p, dtype=_dtype: p.dtype == dtype,
            )
        }
    )

# The length of the draft.


@defect("S1", "shapes")
def four_drafts_unrolled(x: Array, q: Array, p: Array) -> None:
    """The loop is unrolled for four drafts; later ones meet the fourth one's row."""
    p[:, 4:-1] = p[:, 3:4]


# The size of the vocabulary.

specimens_of("shapes", function=emitting)(
    shape_ids_of_one_byte=(
        "S2: Ids above 255 are cut to their last byte",
        lambda tokens, vocab: tokens & 0xFF,
    ),
)


@defect("S3", "shapes")
def fifth_token_forgotten(x: Array, q: Array, p: Array) -> None:
    """Above four tokens the likeliest four are kept."""
    if p.shape[-1] > 4:
        least = np.sort(p, axis=-1)[..., -4:-3]
        p[...] = _law(np.where(p >= least, p, 0))


# Small probabilities.


@defect("S4", "shapes")
def rare_tokens_raised(x: Array, q: Array, p: Array) -> None:
    """Probabilities of the target below 0.001 are raised to that."""
    p[...] = _law(np.where(p > 0, np.maximum(p, 1e-3), 0).astype(p.dtype))


@defect("S4", "shapes")
def draft_floored(x: Array, q: Array, p: Array) -> None:
    """Probabilities of the draft below 0.001 are raised to that."""
    q[...] = np.where(q > 0, np.maximum(q, 1e-3), 0)


# Number types and memory.


@defect("S5", "shapes")
def ids_of_int32(x: Array, q: Array, p: Array) -> None:
    """Ids of 32 bits are read in pairs: the second draft's row judges the first one."""
    if x.dtype == np.int32:
        p[:, 0] = p[:, 1]


specimens_of("shapes", function=on_target)(
    shape_order_in_memory=(
        "S6: Rows are read in the order in which they lie in memory",
        lambda p: p.ravel(order="K").reshape(p.shape),
    )
)


# Places in a batch.


@defect("S8", "shapes")
def last_request(x: Array, q: Array, p: Array) -> None:
    """The last of several requests is judged by rows of the one before."""
    if len(x) > 1:
        p[-1] = p[-2]


# Several paths.


@specimen("S9", "shapes", prefix="shape-", function=siblings, num_paths=2)
def third_path(x: Array, q: Array, p: Array) -> Rows:
    """The third path and later ones are judged by the neighbours' probabilities."""
    p[:, 2:] = _unlike(p[:, 2:]) if p.ndim == 4 else p[:, 2:]
    return x, q, p


# Right code with a path of its own.

specimens_of(declared="token", function=on_target)(
    shape_four_drafts_a_time=(
        "control: Take the rows in groups of four, with a rest",
        lambda p: _pieces(p, 4, 1),
    ),
    shape_blocks_with_a_tail=("control: Blocks of 128 tokens, and a rest", lambda p: _pieces(p, 128, -1)),
    shape_chunks_of_64=("control: Requests are taken in chunks of 64", lambda p: _pieces(p, 64, 0)),
    shape_contiguous_first=("control: Rows are made contiguous first", np.ascontiguousarray),
)


@specimen("control", declared="token", prefix="shape-", function=on_target)
def logarithms_and_back(p: Array) -> Array:
    """Rows pass through logarithms of float64."""
    with np.errstate(divide="ignore"):
        return np.exp(np.log(p.astype(np.float64)))


specimens_of(declared="token", function=seeing)(
    shape_rows_of_float64=(
        "control: Rows and ids are converted first",
        lambda x, q, p: (x.astype(np.int64), q.astype(np.float64), p.astype(np.float64)),
    )
)
specimens_of(declared="recursive_rejection", function=siblings, num_paths=2)(
    shape_paths_one_by_one=(
        "control: Paths are copied one by one",
        lambda x, q, p: (x, q, np.stack([p[:, k] for k in range(p.shape[1])], axis=1)),
    )
)
