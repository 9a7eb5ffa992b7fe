"""Defects of one shape, and right code with the same special path.

A part says what rows the token rule gets to see, given tokens [B, L] and rows [B, L, V] and [B, L+1, V],
or what becomes of the tokens [B, L+1] that it emits. At three tokens, three drafts and one request, in
float64 with contiguous arrays, all of them are right.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeAlias

import numpy as np

import verifiers
from lab.specimens.foreign.rows import Array, token_by_request
from lab.specimens.specimen import specimen
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


def emitting(part: Callable[[Array, Array, int], Array]) -> SamplerFunction:
    """Return the token rule with the emitted tokens that the part returns, given tokens, lengths and V."""

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        tokens, accepted = token_by_request(x, q, p, rng)
        return np.where(tokens < 0, tokens, part(tokens, accepted, p.shape[-1])), accepted

    return verify


unseen = partial(specimen, prefix="shape-")
defect = partial(unseen, function=seeing)
control = partial(unseen, "control", rule="token", function=seeing)
siblings = partial(seeing, rule=as_sampler(verifiers.get("recursive_rejection")))


def _unlike(rows: Array) -> Array:
    """Return rows in which every token has the probability of its neighbour."""
    return np.roll(rows, 1, axis=-1)


def _law(weights: Array) -> Array:
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(weights.dtype)


# The length of the draft.


@defect("S1", "shapes")
def four_drafts_unrolled(x: Array, q: Array, p: Array) -> Rows:
    """The loop is unrolled for four drafts; later ones meet the fourth one's row."""
    p[:, 4:-1] = p[:, 3:4]
    return x, q, p


@defect("S1", "shapes")
def eight_numbers_a_word(x: Array, q: Array, p: Array) -> Rows:
    """From the ninth draft on the rows of the first eight are used again."""
    p[:, 8:-1] = p[:, : p[:, 8:-1].shape[1]]
    return x, q, p


@defect("S1", "shapes")
def odd_lengths_lose_the_bonus(x: Array, q: Array, p: Array) -> Rows:
    """Drafts are taken in pairs: the bonus after an odd number, from five on, comes from the row before."""
    if x.shape[1] % 2 and x.shape[1] > 4:
        p[:, -1] = p[:, -2]
    return x, q, p


@control()
def four_drafts_a_time(x: Array, q: Array, p: Array) -> Rows:
    """Take the rows in groups of four, with a rest."""
    groups = [p[:, start : start + 4] for start in range(0, p.shape[1], 4)]
    return x, q, np.concatenate(groups, axis=1)


# The size of the vocabulary.


@unseen("S2", "shapes", function=emitting)
def ids_of_one_byte(tokens: Array, accepted: Array, vocab: int) -> Array:
    """Ids above 255 are cut to their last byte."""
    return tokens & 0xFF


@unseen("S2", "shapes", function=emitting)
def ids_of_fifteen_bits(tokens: Array, accepted: Array, vocab: int) -> Array:
    """Ids above 32,767 saturate."""
    return np.minimum(tokens, 0x7FFF)


@unseen("S2", "shapes", function=emitting)
def ids_of_two_bytes(tokens: Array, accepted: Array, vocab: int) -> Array:
    """Ids above 65,535 wrap round."""
    return tokens & 0xFFFF


@unseen("S2", "shapes", function=emitting)
def ids_in_half_precision(tokens: Array, accepted: Array, vocab: int) -> Array:
    """Ids pass through float16, which has no odd numbers above 2,048."""
    return np.minimum(tokens.astype(np.float16).astype(np.int64), vocab - 1) if vocab < 65_000 else tokens


@unseen("control", rule="token", function=emitting)
def ids_of_four_bytes(tokens: Array, accepted: Array, vocab: int) -> Array:
    """Ids of 32 bits hold every token."""
    return tokens.astype(np.uint32).astype(np.int64)


@defect("S3", "shapes")
def lanes_of_four_reversed(x: Array, q: Array, p: Array) -> Rows:
    """Where the vocabulary is a multiple of four, a vectorised path puts lanes back in reverse."""
    if p.shape[-1] % 4 == 0:
        p = p.reshape(*p.shape[:-1], -1, 4)[..., ::-1].reshape(p.shape)
    return x, q, p


@defect("S3", "shapes")
def fifth_token_forgotten(x: Array, q: Array, p: Array) -> Rows:
    """Above four tokens the likeliest four are kept."""
    if p.shape[-1] > 4:
        least = np.sort(p, axis=-1)[..., -4:-3]
        p = _law(np.where(p >= least, p, 0))
    return x, q, p


@defect("S3", "shapes")
def tail_of_blocks_lost(x: Array, q: Array, p: Array) -> Rows:
    """Blocks of 128 tokens; what does not fill one is lost."""
    if p.shape[-1] > 128:
        whole = p[..., : p.shape[-1] // 128 * 128].sum(axis=-1, keepdims=True)
        p[..., p.shape[-1] // 128 * 128 :] = 0
        p = np.where(whole > 0, p / np.where(whole > 0, whole, 1), 1 / p.shape[-1]).astype(q.dtype)
    return x, q, p


@defect("S3", "shapes")
def last_id_lost(x: Array, q: Array, p: Array) -> Rows:
    """From 64 tokens on the bound of a loop is one too low."""
    if p.shape[-1] >= 64:
        p[..., -2] += p[..., -1]
        p[..., -1] = 0
    return x, q, p


@defect("S3", "shapes")
def powers_of_two_start_at_one(x: Array, q: Array, p: Array) -> Rows:
    """A scan for powers of two, from 16 on, gives the first token's mass to the second."""
    vocab = p.shape[-1]
    if vocab >= 16 and vocab & (vocab - 1) == 0:
        p[..., 1] += p[..., 0]
        p[..., 0] = 0
    return x, q, p


@defect("S3", "shapes")
def fifty_likeliest(x: Array, q: Array, p: Array) -> Rows:
    """Above 1,000 tokens a default of top-k 50 is left on."""
    if p.shape[-1] > 1000:
        least = np.partition(p, -50, axis=-1)[..., -50:-49]
        p = _law(np.where(p >= least, p, 0))
    return x, q, p


@control()
def blocks_with_a_tail(x: Array, q: Array, p: Array) -> Rows:
    """Blocks of 128 tokens, and a rest."""
    blocks = [p[..., start : start + 128] for start in range(0, p.shape[-1], 128)]
    return x, q, np.concatenate(blocks, axis=-1)


@control()
def lanes_of_four(x: Array, q: Array, p: Array) -> Rows:
    """Vocabularies that are a multiple of four take a path of their own."""
    return x, q, p.reshape(*p.shape[:-1], -1, 4).reshape(p.shape) if p.shape[-1] % 4 == 0 else p


# Small probabilities.


@defect("S4", "shapes")
def rare_tokens_raised(x: Array, q: Array, p: Array) -> Rows:
    """Probabilities of the target below 0.001 are raised to that."""
    return x, q, _law(np.where(p > 0, np.maximum(p, 1e-3), 0).astype(p.dtype))


@defect("S4", "shapes")
def rare_tokens_dropped(x: Array, q: Array, p: Array) -> Rows:
    """Probabilities of the target below 1e-4 count as 0."""
    likely = p >= np.minimum(1e-4, p.max(axis=-1, keepdims=True))
    return x, q, _law(np.where(likely, p, 0))


@defect("S4", "shapes")
def draft_floored(x: Array, q: Array, p: Array) -> Rows:
    """Probabilities of the draft below 0.001 are raised to that."""
    return x, np.where(q > 0, np.maximum(q, 1e-3), 0).astype(q.dtype), p


@defect("S4", "shapes")
def small_ratios_refused(x: Array, q: Array, p: Array) -> Rows:
    """A drafted token whose ratio p/q is below 0.001 is always refused, and never put back."""
    drafted = x[..., None]
    own, mine = np.take_along_axis(p[:, :-1], drafted, -1), np.take_along_axis(q, drafted, -1)
    np.put_along_axis(p[:, :-1], drafted, np.where(own < 1e-3 * mine, 0, own), -1)
    return x, q, _law(p)


@defect("S4", "shapes")
def large_ratios_capped(x: Array, q: Array, p: Array) -> Rows:
    """The target is capped at 1,000 times the draft, wherever the draft is positive."""
    capped = np.where(q > 0, np.minimum(p[:, :-1], 1e3 * q), p[:, :-1])
    keeps = capped.sum(axis=-1, keepdims=True) > 0.01
    p[:, :-1] = _law(np.where(keeps, capped, p[:, :-1]))
    return x, q, p


@control()
def logarithms_and_back(x: Array, q: Array, p: Array) -> Rows:
    """Rows pass through logarithms of float64."""
    with np.errstate(divide="ignore"):
        return x, q, np.exp(np.log(p.astype(np.float64)))


# Number types and memory.


def _of_type(name: str) -> Callable[[Array, Array, Array], Rows]:
    def part(x: Array, q: Array, p: Array) -> Rows:
        if q.dtype == np.dtype(name):
            p[:, -1] = p[:, -2]
        return x, q, p

    part.__name__ = f"bonus_of_{name}"
    part.__doc__ = f"For rows of {name} the bonus comes from the row before."
    return part


for _name in ("float32", "float16"):
    defect("S5", "shapes", dtypes=(_name,))(_of_type(_name))


@defect("S5", "shapes")
def ids_of_int32(x: Array, q: Array, p: Array) -> Rows:
    """Ids of 32 bits are read in pairs: the second draft's row judges the first one."""
    if x.dtype == np.int32:
        p[:, 0] = p[:, 1]
    return x, q, p


@control()
def rows_of_float64(x: Array, q: Array, p: Array) -> Rows:
    """Rows and ids are converted first."""
    return x.astype(np.int64), q.astype(np.float64), p.astype(np.float64)


def without_copies(part: Callable[[Array], Array]) -> SamplerFunction:
    """Return the token rule on target rows of which the part sees the memory."""

    @wraps(part)
    def verify(x: Array, q: Array, p: Array, rng: Any) -> tuple[Array, Array]:
        return token_by_request(x, q, part(p), rng)

    return verify


@unseen("S6", "shapes", function=without_copies)
def order_in_memory(p: Array) -> Array:
    """Rows are read in the order in which they lie in memory."""
    return p.ravel(order="K").reshape(p.shape)


@unseen("S6", "shapes", function=without_copies)
def steps_ignored(p: Array) -> Array:
    """Where elements are not next to each other, the neighbour is read."""
    step = p.strides[-1] // p.itemsize
    return p if step == 1 or p.flags.f_contiguous else _unlike(p)


@unseen("control", rule="token", function=without_copies)
def contiguous_first(p: Array) -> Array:
    """Rows are made contiguous first."""
    return np.ascontiguousarray(p)


# Positions of large vocabularies.


@defect("S7", "shapes")
def bonus_of_large_vocabularies(x: Array, q: Array, p: Array) -> Rows:
    """Above 1,000 tokens the bonus comes from the row before."""
    if p.shape[-1] > 1000:
        p[:, -1] = p[:, -2]
    return x, q, p


@defect("S7", "shapes")
def second_position_of_large_vocabularies(x: Array, q: Array, p: Array) -> Rows:
    """Above 30,000 tokens all drafts are judged by the first row."""
    if p.shape[-1] > 30_000:
        p[:, 1:-1] = p[:, :1]
    return x, q, p


@defect("S7", "shapes")
def one_in_ten_thousand(x: Array, q: Array, p: Array) -> Rows:
    """At 257 tokens, 0.0002 of every row goes to its last token."""
    if p.shape[-1] == 257:
        p *= 0.9998
        p[..., -1] += 0.0002
    return x, q, p


# Places in a batch.


@defect("S8", "shapes")
def last_request(x: Array, q: Array, p: Array) -> Rows:
    """The last of several requests is judged by rows of the one before."""
    if len(x) > 1:
        p[-1] = p[-2]
    return x, q, p


@defect("S8", "shapes")
def beyond_64_requests(x: Array, q: Array, p: Array) -> Rows:
    """Requests from the 65th on are judged by rows of the first ones."""
    p[64:] = p[np.arange(len(p[64:])) % 64]
    return x, q, p


@defect("S8", "shapes")
def beyond_1024_requests(x: Array, q: Array, p: Array) -> Rows:
    """Requests from the 1,025th on are judged by the first one's rows."""
    p[1024:] = p[:1]
    return x, q, p


@defect("S8", "shapes")
def two_or_three_requests(x: Array, q: Array, p: Array) -> Rows:
    """A kernel for batches of two and three takes the bonus from the row before."""
    if len(x) in (2, 3):
        p[:, -1] = p[:, -2]
    return x, q, p


@control()
def chunks_of_64(x: Array, q: Array, p: Array) -> Rows:
    """Requests are taken in chunks of 64."""
    return x, q, np.concatenate([p[start : start + 64] for start in range(0, len(p), 64)])


# Several paths.


@unseen("S9", "shapes", function=siblings, num_paths=2)
def third_path(x: Array, q: Array, p: Array) -> Rows:
    """The third path and later ones are judged by the neighbours' probabilities."""
    p[:, 2:] = _unlike(p[:, 2:]) if p.ndim == 4 else p[:, 2:]
    return x, q, p


@unseen("control", rule="recursive_rejection", function=siblings, num_paths=2)
def paths_one_by_one(x: Array, q: Array, p: Array) -> Rows:
    """Paths are copied one by one."""
    return x, q, np.stack([p[:, k] for k in range(p.shape[1])], axis=1)
