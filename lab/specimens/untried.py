"""Shapes and rows that nobody tries: large vocabularies, flat rows, good drafters, ids of special tokens.

Most parts are steps of the token rule for one request, see `lab.specimens.foreign.rows`. Those of `defect`
and `control` return the tokens and rows which the token rule then verifies.
"""

from functools import partial
from typing import Any

import numpy as np

from lab.specimens.foreign.rows import (
    Array,
    by_accept,
    by_correction,
    draw,
    from_residual,
    passes,
    residual,
)
from lab.specimens.foreign.shapes import Rows, seeing
from lab.specimens.specimen import specimen

unseen = partial(specimen, prefix="shape-")
defect = partial(unseen, function=seeing)
control = partial(unseen, "control", declared="token", function=seeing)
accepting = partial(unseen, function=by_accept)
correcting = partial(unseen, function=by_correction)


def _normalised(weights: Array) -> Array:
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / np.where(total > 0, total, 1)).astype(weights.dtype)


def _distance(q: Array, p: Array) -> Array:
    """Return the total variation of target and draft at each drafted position, [B, L, 1]."""
    return abs(p[:, :-1] - q).sum(axis=-1, keepdims=True) / 2


# Large vocabularies.


@correcting("S3", "shapes")
def residual_cut_at_32768(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """The residual is computed in a buffer of 32,768 tokens."""
    left = np.maximum(p[i] - q[i], 0)[:32_768]
    return draw(left if left.sum() > 0 else p[i], rng)


@correcting("control", declared="token")
def residual_in_blocks_of_32768(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """The residual is computed in blocks of 32,768 tokens."""
    blocks = [np.maximum(p[i][s : s + 32_768] - q[i][s : s + 32_768], 0) for s in range(0, len(p[i]), 32_768)]
    left = np.concatenate(blocks)
    return draw(left if left.sum() > 0 else p[i], rng)


# Probabilities that are small everywhere.


@accepting("S10", "bad-input")
def target_clamped_at_a_millionth(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """The ratio is max(p, 1e-6) / q."""
    return bool(rng.random() * q[i, x[i]] < max(p[i, x[i]], 1e-6))


@accepting("S10", "bad-input")
def smoothed_ratio(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """The ratio is (p + 1e-6) / (q + 1e-6)."""
    return bool(rng.random() * (q[i, x[i]] + 1e-6) < p[i, x[i]] + 1e-6)


@accepting("S10", survives="no rows in which thousands of tokens are about as likely")
def accepted_within_an_absolute_tolerance(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """A draft passes where q exceeds p by less than 1e-5."""
    return bool(q[i, x[i]] - p[i, x[i]] < 1e-5 and q[i, x[i]] > 0) or passes(x, q, p, i, rng)


@accepting("control", declared="token")
def clamped_far_below(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """The ratio is p / max(q, 1e-30)."""
    return bool(rng.random() * max(q[i, x[i]], 1e-30) < p[i, x[i]])


# Drafts that are nearly the target.


@correcting("S11", "shapes")
def residual_floored(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """The residual is p - q + 0.001, where that is positive and p is."""
    left = np.where(p[i] > 0, np.maximum(p[i] - q[i] + 1e-3 * p[i], 0), 0)
    return draw(left if left.sum() > 0 else p[i], rng)


@defect("S11", "shapes")
def row_after_a_near_draft(x: Array, q: Array, p: Array) -> Rows:
    """After a draft at total variation below 0.05 the row before is used again."""
    near = _distance(q, p)
    p[:, 1:] = np.where((near > 0) & (near < 0.05), p[:, :-1], p[:, 1:])
    return x, q, p


@accepting("control", declared="token")
def equal_rows_pass(x: Array, q: Array, p: Array, i: int, rng: Any) -> bool:
    """A draft passes at once where p and q are equal."""
    return bool(p[i, x[i]] >= q[i, x[i]] > 0) or passes(x, q, p, i, rng)


@correcting("control", declared="token")
def tiny_residual_taken_for_none(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """A residual below 1e-12 counts as rounding: the correction is a target sample."""
    left = np.maximum(p[i] - q[i], 0)
    return draw(left if left.sum() > 1e-12 else p[i], rng)


# Ids of special tokens.


def _without(rows: Array, token: int) -> Array:
    """Return rows without a token, where others are possible."""
    if token < rows.shape[-1]:
        rest = rows.copy()
        rest[..., token] = 0
        return np.where(rest.sum(axis=-1, keepdims=True) > 0, _normalised(rest), rows)
    return rows


@defect("S12", "shapes")
def end_of_qwen_masked(x: Array, q: Array, p: Array) -> Rows:
    """From 151,936 tokens on the end token 151,645 is never sampled."""
    return x, q, _without(p, 151_645) if p.shape[-1] >= 151_936 else p


@defect("S12", "shapes")
def mask_of_bert_masked(x: Array, q: Array, p: Array) -> Rows:
    """From 30,000 tokens on the mask token 103 is never sampled."""
    return x, q, _without(p, 103) if p.shape[-1] >= 30_000 else p


@control()
def special_tokens_masked_and_put_back(x: Array, q: Array, p: Array) -> Rows:
    """End tokens are masked in a copy."""
    _without(p, 2)
    return x, q, p


@correcting("control", declared="token")
def end_tokens_have_a_path(x: Array, q: Array, p: Array, i: int, rng: Any) -> int:
    """A drafted end token takes a path of its own, to the same residual."""
    return draw(residual(p[i], q[i]), rng) if x[i] in {0, 1, 2, 151_645} else from_residual(x, q, p, i, rng)
