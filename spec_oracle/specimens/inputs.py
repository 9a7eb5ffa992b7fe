"""Functions that fail on the edge of their inputs: extreme uniforms, broken rows, size, kept state."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from spec_oracle.specimens.batching import token_by_request
from spec_oracle.specimens.foreign.rows import (
    Array,
    Rule,
    block_weights,
    draw,
    loop,
    passes,
    per_request,
    residual,
)
from spec_oracle.specimens.sources import source_of
from spec_oracle.specimens.specimen import PlainVerify, Specimen

BAD_INPUT, CALLS, STREAMS, SCALE = ("bad-input",), ("calls",), ("streams",), ("scale",)


def _token_rule_with(accept: Callable[..., bool], correct: Callable[..., int]) -> Rule:
    def rule(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
        return loop(
            x,
            lambda i: accept(x, q, p, i, rng),
            lambda i: correct(x, q, p, i, rng),
            lambda: draw(p[-1], rng),
        )

    return rule


def _right_correction(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    return draw(residual(p[i], q[i]), rng)


# Extreme uniforms and broken rows.


def _inclusive(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    return bool(rng.random() * q[i, x[i]] <= p[i, x[i]])


def _single_precision_coin(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    cumulative = np.cumsum(residual(p[i], q[i]))
    return int((cumulative <= np.float32(rng.random()) * cumulative[-1]).sum())


def _padding_lane(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    weights = residual(p[i], q[i])
    lanes = np.append(weights / rng.exponential(size=len(weights)), np.nan)
    return int(np.nanargmax(lanes)) if np.isfinite(lanes[:-1]).all() else len(weights)


def _first_id_for_empty_residual(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    weights = np.nan_to_num(p[i] - q[i])
    weights = np.maximum(weights, 0)
    return draw(weights, rng) if weights.sum() > 0 else 0


def _negative_length(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    tokens, accepted = token_by_request(x, q, np.where(np.isfinite(p), p, 1.0), generator)
    return tokens, np.where(np.isfinite(p).all(axis=(1, 2)), accepted, -1)


def _wraps_ids(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    inside = x % q.shape[-1]
    tokens, accepted = token_by_request(inside, q, p, generator)
    position = np.arange(tokens.shape[1])
    return np.where(position < accepted[:, None], np.pad(x, ((0, 0), (0, 1))), tokens), accepted


# Inputs changed.


def _residual_in_place(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    result = token_by_request(x, q, p, generator)
    np.subtract(p[:, :-1], q, out=p[:, :-1])
    return result


def _strikes_draft_and_restores(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    result = token_by_request(x, q, p, generator)
    x[:, 0] = result[0][:, 0]
    return result


# State and streams kept between calls.


class _StaleDraftBuffer:
    """Reads q from a buffer that is filled after it was read."""

    def __init__(self) -> None:
        self._buffer: Array = None

    def __call__(self, x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
        stale = self._buffer if self._buffer is not None and self._buffer.shape == q.shape else q
        self._buffer = q.copy()
        safe = np.where(np.take_along_axis(stale, x[..., None], axis=2) > 0, stale, q)
        return token_by_request(x, safe, p, generator)


def _generator_copied(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    return token_by_request(x, q, p, copy.deepcopy(generator))


def _fixed_seed(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:  # noqa: ARG001
    return token_by_request(x, q, p, np.random.default_rng(0))


def _fresh_entropy(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:  # noqa: ARG001
    return token_by_request(x, q, p, np.random.default_rng())


# Size.


def _sums_in_the_rows_type(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    sums = residual(p[i], q[i]).cumsum(dtype=p.dtype)
    return min(int((sums <= rng.random() * sums[-1]).sum()), len(sums) - 1)


def _floor(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    return draw(np.maximum(p[i] - q[i], 1e-5), rng)


def _last_tile_lost(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:  # noqa: ARG001
    weights = residual(p[i], q[i])
    whole = max(len(weights) // 128 * 128, min(len(weights), 128))
    return draw(weights[:whole] + 1e-300, rng)


def _offsets_of_sixteen_bits(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Offsets b L V in 16 bits: the real ones had 32 and as much more memory."""
    size = q.shape[1] * q.shape[2]
    start = (np.arange(len(x)) * size) % 2**15
    wrapped = q.reshape(-1)[start[:, None] + np.arange(size)].reshape(q.shape)
    return token_by_request(x, wrapped, p, generator)


def _block_ignored(x: Array, q: Array, p: Array, rng: Any) -> list[int]:
    block_weights(x, q, p)
    return _token_rule_with(passes, _right_correction)(x, q, p, rng)


def _function(  # noqa: PLR0917
    zoo_id: str, name: str, defect: str, killers: tuple[str, ...], verify: PlainVerify, rule: str = "token"
) -> Specimen:
    return Specimen(name, zoo_id, source_of(zoo_id), defect, killers, function=verify, rule=rule)


INPUTS: tuple[Specimen, ...] = (
    _function(
        "A8",
        "zero-uniform-accepts",
        "u <= p/q accepts an impossible draft at u = 0",
        BAD_INPUT,
        per_request(_token_rule_with(_inclusive, _right_correction)),
    ),
    _function(
        "A9",
        "coin-of-one",
        "a uniform rounds to 1 and the inverse CDF falls off the end",
        BAD_INPUT,
        per_request(_token_rule_with(passes, _single_precision_coin)),
    ),
    _function(
        "B6",
        "padding-lane-wins",
        "a row of NaN yields the id V",
        BAD_INPUT,
        per_request(_token_rule_with(passes, _padding_lane)),
    ),
    _function(
        "B7",
        "empty-residual-yields-id-0",
        "a NaN draft row yields token 0, possible or not",
        BAD_INPUT,
        per_request(_token_rule_with(passes, _first_id_for_empty_residual)),
    ),
    _function(
        "A14-counter",
        "negative-counter",
        "a row of NaN yields an accepted length of -1",
        BAD_INPUT,
        _negative_length,
    ),
    _function(
        "D19", "ids-wrapped", "ids out of range are replaced for the test and emitted", BAD_INPUT, _wraps_ids
    ),
    _function(
        "B9-scratch",
        "residual-in-callers-memory",
        "the residual is computed in the target's memory",
        ("inputs-kept",),
        _residual_in_place,
    ),
    _function(
        "B10",
        "draft-token-overwritten",
        "the draft token is overwritten in the caller's memory",
        ("inputs-kept",),
        _strikes_draft_and_restores,
    ),
    _function(
        "D7",
        "stale-draft-buffer",
        "q is read from a buffer that holds the call before",
        CALLS,
        _StaleDraftBuffer(),
    ),
    _function(
        "C9-function",
        "generator-not-advanced",
        "every call works on a copy of the generator",
        CALLS,
        _generator_copied,
    ),
    _function("C4-function", "fixed-seed", "every call starts from seed 0", STREAMS, _fixed_seed),
    _function(
        "C6-function",
        "fresh-entropy",
        "every call takes fresh entropy, whatever the seed",
        STREAMS,
        _fresh_entropy,
    ),
    _function(
        "B3",
        "floor-under-residual",
        "a floor of 1e-5 per token under the residual",
        SCALE,
        per_request(_token_rule_with(passes, _floor)),
    ),
    _function(
        "B8",
        "last-tile-lost",
        "ids in the last, partial tile are never drawn",
        SCALE,
        per_request(_token_rule_with(passes, _last_tile_lost)),
    ),
    _function(
        "low-precision",
        "sums-in-the-rows-type",
        "running sums in the type of the rows: in float16 they stop growing",
        SCALE,
        per_request(_token_rule_with(passes, _sums_in_the_rows_type)),
    ),
    _function("F3", "offsets-overflow", "offsets into q wrap around", SCALE, _offsets_of_sixteen_bits),
    _function(
        "F4",
        "block-option-ignored",
        "declared block verification, token verification runs",
        ("length",),
        per_request(_block_ignored),
        "block",
    ),
)
