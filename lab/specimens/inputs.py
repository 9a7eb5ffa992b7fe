"""Functions that fail on the edge of their inputs: extreme uniforms, broken rows, size, kept state."""

import copy
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array, by_accept, by_correction, draw, residual, token_by_request
from lab.specimens.specimen import itself, specimen, specimens_of
from spec_oracle.contracts import SamplerFunction

# Extreme uniforms and broken rows.


specimens_of("bad-input", declared="token", function=by_accept)(
    zero_uniform_accepts=(
        "A8: Test u <= p/q, which accepts an impossible draft at u = 0",
        lambda x, q, p, i, rng: rng.random() * q[i, x[i]] <= p[i, x[i]],
    )
)


@specimen("A9", "bad-input", declared="token", function=by_correction)
def coin_of_one(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """A uniform rounds to 1 and the inverse CDF falls off the end."""
    cumulative = np.cumsum(residual(p[i], q[i]))
    return int((cumulative <= np.float32(rng.random()) * cumulative[-1]).sum())


def _noise_of_words(*, over: float, shift: float) -> Any:
    def corrected(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
        weights = residual(p[i], q[i])
        words = rng.integers(2**32, size=len(weights), dtype=np.uint64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return int(np.argmax(np.log(weights) - np.log(-np.log((words + shift) / over))))

    return corrected


specimens_of("bad-input", declared="token", function=by_correction)(
    gumbel_of_the_largest_word=(
        "A9: Gumbel noise of a random word of 32 bits, the largest of which is a uniform of 1",
        _noise_of_words(over=2**32 - 1, shift=0.0),
    )
)
specimens_of(declared="token", function=by_correction)(
    gumbel_of_the_middle_of_words=(
        "control: Gumbel noise of a random word of 32 bits, by the middle of its interval",
        _noise_of_words(over=2**32, shift=0.5),
    )
)


@specimen("B6", "bad-input", declared="token", function=by_correction)
def padding_lane_wins(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """A row of NaN yields the id V."""
    weights = residual(p[i], q[i])
    lanes = np.append(weights / rng.exponential(size=len(weights)), np.nan)
    return int(np.nanargmax(lanes)) if np.isfinite(lanes[:-1]).all() else len(weights)


@specimen("B7", "bad-input", declared="token", function=by_correction)
def empty_residual_yields_id_0(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """A NaN draft row yields token 0, possible or not."""
    weights = np.maximum(np.nan_to_num(p[i] - q[i]), 0)
    return draw(weights, rng) if weights.sum() > 0 else 0


@specimen("A14", "bad-input", declared="token", function=itself)
def negative_counter(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """A row of NaN yields an accepted length of -1."""
    tokens, accepted = token_by_request(x, q, np.where(np.isfinite(p), p, 1.0), generator)
    return tokens, np.where(np.isfinite(p).all(axis=(1, 2)), accepted, -1)


@specimen("D19", "bad-input", declared="token", function=itself)
def ids_wrapped(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Ids out of range are replaced for the test and emitted."""
    inside = x % q.shape[-1]
    tokens, accepted = token_by_request(inside, q, p, generator)
    position = np.arange(tokens.shape[1])
    return np.where(position < accepted[:, None], np.pad(x, ((0, 0), (0, 1))), tokens), accepted


# Inputs changed.


@specimen("B9", "inputs-kept", declared="token", function=itself)
def residual_in_callers_memory(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """The residual is computed in the target's memory."""
    result = token_by_request(x, q, p, generator)
    np.subtract(p[:, :-1], q, out=p[:, :-1])
    return result


@specimen("B10", "inputs-kept", declared="token", function=itself)
def draft_token_overwritten(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """The draft token is overwritten in the caller's memory."""
    result = token_by_request(x, q, p, generator)
    x[:, 0] = result[0][:, 0]
    return result


# State and streams kept between calls.


@specimen("D7", "calls", declared="token", function=lambda make: make())
def stale_draft_buffer() -> SamplerFunction:
    """The buffer that q is read from holds the call before."""
    buffer: Array = None

    def verify(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        nonlocal buffer
        stale = buffer if buffer is not None and buffer.shape == q.shape else q
        buffer = q.copy()
        safe = np.where(np.take_along_axis(stale, x[..., None], axis=2) > 0, stale, q)
        return token_by_request(x, safe, p, generator)

    return verify


specimens_of("calls", declared="token", function=itself)(
    generator_not_advanced=(
        "C9: Every call works on a copy of the generator",
        lambda x, q, p, generator: token_by_request(x, q, p, copy.deepcopy(generator)),
    )
)
specimens_of("streams", declared="token", function=itself)(
    fixed_seed=(
        "C4: Every call starts from seed 0",
        lambda x, q, p, generator: token_by_request(x, q, p, np.random.default_rng(0)),
    ),
    fresh_entropy=(
        "C6: Every call takes fresh entropy, whatever the seed",
        lambda x, q, p, generator: token_by_request(x, q, p, np.random.default_rng()),
    ),
)

# Size.

specimens_of("scale", declared="token", function=by_correction)(
    floor_under_residual=(
        "B3: A floor of 1e-5 per token under the residual",
        lambda x, q, p, i, rng: draw(np.maximum(p[i] - q[i], 1e-5), rng),
    )
)


@specimen("B8", "scale", declared="token", function=by_correction)
def last_tile_lost(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Ids in the last, partial tile are never drawn."""
    weights = residual(p[i], q[i])
    whole = max(len(weights) // 128 * 128, min(len(weights), 128))
    return draw(weights[:whole] + 1e-300, rng)


@specimen(
    "mutant",
    declared="token",
    function=by_correction,
    survives="what is wrong in float16 alone is a note",
    found_with="--dtype float16",
)
def sums_in_the_rows_type(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """Running sums in the type of the rows: in float16 they stop growing."""
    weights = residual(p[i], q[i])
    order = (-weights).argsort(kind="stable")  # the likeliest first, as for a top-p
    sums = weights[order].cumsum(dtype=p.dtype)
    return int(order[min(int((sums <= rng.random() * sums[-1]).sum()), len(sums) - 1)])


@specimen("F3", "scale", declared="token", function=itself)
def offsets_overflow(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Offsets b L V into q wrap around in 16 bits: the real ones had 32 and as much more memory."""
    size = q.shape[1] * q.shape[2]
    start = (np.arange(len(x)) * size) % 2**15
    wrapped = q.reshape(-1)[start[:, None] + np.arange(size)].reshape(q.shape)
    return token_by_request(x, wrapped, p, generator)


specimens_of("length", declared="block", function=itself)(
    block_option_ignored=("F4: Declared block verification, token verification runs", token_by_request)
)
