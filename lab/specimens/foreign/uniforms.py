"""The token rule by uniforms that it takes as an argument, as GPU kernels do."""

from typing import Any

import numpy as np

from lab.specimens.foreign.rows import Array


def _along(rows: Array, x: Array) -> Array:
    """Return the probability of each drafted token."""
    return np.take_along_axis(rows, x[..., None], 2)[..., 0]


def token_by_uniforms(
    x: Array, q: Array, p: Array, uniforms: Array, *, dtype: Any = np.float32, shift: float = 0.0
) -> tuple[Array, Array]:
    """Run the token rule in this type; ``shift`` is added to every threshold."""
    p, q, u = (array.astype(dtype) for array in (p, q, uniforms))
    batch, length = x.shape
    ratio = _along(p[:, :-1], x) / _along(q, x)
    tau = np.cumprod(u[:, :-1] < ratio + dtype(shift), axis=1).sum(axis=1)
    left = np.maximum(p[:, :-1] - q, 0)
    left = np.where(left.sum(axis=2, keepdims=True) > 0, left, p[:, :-1])
    weights = np.concatenate([left, p[:, -1:]], axis=1)[np.arange(batch), tau].cumsum(axis=1)
    drawn = (weights <= u[:, -1:] * weights[:, -1:]).sum(axis=1)
    last = (weights < weights[:, -1:]).sum(axis=1)
    emitted = np.full((batch, length + 1), -1)
    before = np.arange(length) < tau[:, None]
    emitted[:, :-1][before] = x[before]
    emitted[np.arange(batch), tau] = np.minimum(drawn, last)
    return emitted, tau
