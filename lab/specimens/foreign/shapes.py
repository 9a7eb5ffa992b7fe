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
    shape_odd_lengths_lose_the_bonus=(
        (
            "S1: Drafts are taken in pairs: the bonus after an odd number, from five on, "
            "comes from the row before"
        ),
        lambda x, p: x.shape[1] % 2 == 1 and x.shape[1] > 4,
    ),
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


@defect("S1", "shapes")
def eight_numbers_a_word(x: Array, q: Array, p: Array) -> None:
    """From the ninth draft on the rows of the first eight are used again."""
    p[:, 8:-1] = p[:, : p[:, 8:-1].shape[1]]


# The size of the vocabulary.

specimens_of("shapes", function=emitting)(
    shape_ids_of_one_byte=(
        "S2: Ids above 255 are cut to their last byte",
        lambda tokens, vocab: tokens & 0xFF,
    ),
    shape_ids_of_fifteen_bits=(
        "S2: Ids above 32,767 saturate",
        lambda tokens, vocab: np.minimum(tokens, 0x7FFF),
    ),
    shape_ids_of_two_bytes=("S2: Ids above 65,535 wrap round", lambda tokens, vocab: tokens & 0xFFFF),
)


@specimen("S2", "shapes", prefix="shape-", function=emitting)
def ids_in_half_precision(tokens: Array, vocab: int) -> Array:
    """Ids pass through float16, which has no odd numbers above 2,048."""
    return np.minimum(tokens.astype(np.float16).astype(np.int64), vocab - 1) if vocab < 65_000 else tokens


@defect("S3", "shapes")
def lanes_of_four_reversed(x: Array, q: Array, p: Array) -> None:
    """Where the vocabulary is a multiple of four, a vectorised path puts lanes back in reverse."""
    if p.shape[-1] % 4 == 0:
        p[...] = p.reshape(*p.shape[:-1], -1, 4)[..., ::-1].reshape(p.shape)


@defect("S3", "shapes")
def fifth_token_forgotten(x: Array, q: Array, p: Array) -> None:
    """Above four tokens the likeliest four are kept."""
    if p.shape[-1] > 4:
        least = np.sort(p, axis=-1)[..., -4:-3]
        p[...] = _law(np.where(p >= least, p, 0))


@defect("S3", "shapes")
def tail_of_blocks_lost(x: Array, q: Array, p: Array) -> None:
    """Blocks of 128 tokens; what does not fill one is lost."""
    if p.shape[-1] > 128:
        whole = p[..., : p.shape[-1] // 128 * 128].sum(axis=-1, keepdims=True)
        p[..., p.shape[-1] // 128 * 128 :] = 0
        p[...] = np.where(whole > 0, p / np.where(whole > 0, whole, 1), 1 / p.shape[-1])


@defect("S3", "shapes")
def last_id_lost(x: Array, q: Array, p: Array) -> None:
    """From 64 tokens on the bound of a loop is one too low."""
    if p.shape[-1] >= 64:
        p[..., -2] += p[..., -1]
        p[..., -1] = 0


@defect("S3", "shapes")
def powers_of_two_start_at_one(x: Array, q: Array, p: Array) -> None:
    """A scan for powers of two, from 16 on, gives the first token's mass to the second."""
    vocab = p.shape[-1]
    if vocab >= 16 and vocab & (vocab - 1) == 0:
        p[..., 1] += p[..., 0]
        p[..., 0] = 0


@defect("S3", "shapes")
def fifty_likeliest(x: Array, q: Array, p: Array) -> None:
    """Above 1,000 tokens a default of top-k 50 is left on."""
    if p.shape[-1] > 1000:
        least = np.partition(p, -50, axis=-1)[..., -50:-49]
        p[...] = _law(np.where(p >= least, p, 0))


@defect("S7", "shapes")
def second_position_of_large_vocabularies(x: Array, q: Array, p: Array) -> None:
    """Above 30,000 tokens all drafts are judged by the first row."""
    if p.shape[-1] > 30_000:
        p[:, 1:-1] = p[:, :1]


@defect("S7", "shapes")
def one_in_ten_thousand(x: Array, q: Array, p: Array) -> None:
    """At 257 tokens, 0.0002 of every row goes to its last token."""
    if p.shape[-1] == 257:
        p *= 0.9998
        p[..., -1] += 0.0002


# Small probabilities.


@defect("S4", "shapes")
def rare_tokens_raised(x: Array, q: Array, p: Array) -> None:
    """Probabilities of the target below 0.001 are raised to that."""
    p[...] = _law(np.where(p > 0, np.maximum(p, 1e-3), 0).astype(p.dtype))


@defect("S4", "shapes")
def rare_tokens_dropped(x: Array, q: Array, p: Array) -> None:
    """Probabilities of the target below 1e-4 count as 0."""
    likely = p >= np.minimum(1e-4, p.max(axis=-1, keepdims=True))
    p[...] = _law(np.where(likely, p, 0))


@defect("S4", "shapes")
def draft_floored(x: Array, q: Array, p: Array) -> None:
    """Probabilities of the draft below 0.001 are raised to that."""
    q[...] = np.where(q > 0, np.maximum(q, 1e-3), 0)


@defect("S4", "shapes")
def small_ratios_refused(x: Array, q: Array, p: Array) -> None:
    """A drafted token whose ratio p/q is below 0.001 is always refused, and never put back."""
    drafted = x[..., None]
    own, mine = np.take_along_axis(p[:, :-1], drafted, -1), np.take_along_axis(q, drafted, -1)
    np.put_along_axis(p[:, :-1], drafted, np.where(own < 1e-3 * mine, 0, own), -1)
    p[...] = _law(p)


@defect("S4", "shapes")
def large_ratios_capped(x: Array, q: Array, p: Array) -> None:
    """The target is capped at 1,000 times the draft, wherever the draft is positive."""
    capped = np.where(q > 0, np.minimum(p[:, :-1], 1e3 * q), p[:, :-1])
    keeps = capped.sum(axis=-1, keepdims=True) > 0.01
    p[:, :-1] = _law(np.where(keeps, capped, p[:, :-1]))


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


@specimen("S6", "shapes", prefix="shape-", function=on_target)
def steps_ignored(p: Array) -> Array:
    """Where elements are not next to each other, the neighbour is read."""
    step = p.strides[-1] // p.itemsize
    return p if step == 1 or p.flags.f_contiguous else _unlike(p)


# Places in a batch.


@defect("S8", "shapes")
def last_request(x: Array, q: Array, p: Array) -> None:
    """The last of several requests is judged by rows of the one before."""
    if len(x) > 1:
        p[-1] = p[-2]


@defect("S8", "shapes")
def beyond_64_requests(x: Array, q: Array, p: Array) -> None:
    """Requests from the 65th on are judged by rows of the first ones."""
    p[64:] = p[np.arange(len(p[64:])) % 64]


@defect("S8", "shapes")
def beyond_1024_requests(x: Array, q: Array, p: Array) -> None:
    """Requests from the 1,025th on are judged by the first one's rows."""
    p[1024:] = p[:1]


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
    shape_lanes_of_four=(
        "control: Vocabularies that are a multiple of four take a path of their own",
        lambda p: p.reshape(*p.shape[:-1], -1, 4).reshape(p.shape) if p.shape[-1] % 4 == 0 else p,
    ),
    shape_contiguous_first=("control: Rows are made contiguous first", np.ascontiguousarray),
)
specimens_of(declared="token", function=emitting)(
    shape_ids_of_four_bytes=(
        "control: Ids of 32 bits hold every token",
        lambda tokens, vocab: tokens.astype(np.uint32).astype(np.int64),
    )
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
