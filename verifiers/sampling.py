"""Decision sources that sample: the ones to use in production and in statistical tests."""

from collections.abc import Callable
from math import prod

from verifiers.arrays import Array, arange_like, as_float64, kept, namespace
from verifiers.errors import ContractError, InvalidInputError, decided_for

_BLOCK = 512
"""Weights are summed in blocks of so many, and only the block that holds the answer is looked into."""


def invert_cdf(weights: Array, uniform: Array) -> Array:
    """Return the index at which the normalised cumulative ``weights`` first exceed ``uniform``.

    Shapes: weights [..., V], uniform [...] in [0, 1]; returns int [...]. An index of weight zero is never
    returned while a positive weight exists, whatever the rounding and even for a uniform of exactly 0 or 1.
    Blocks are summed in the type of the weights, these sums in float64; no array of V numbers is.

    >>> import numpy as np
    >>> invert_cdf(np.array([[1.0, 0.0, 2.0, 1.0]] * 4), np.array([0.0, 0.25, 0.75, 1.0])).tolist()
    [0, 2, 3, 3]
    """
    xp = namespace(weights)
    vocab = weights.shape[-1]
    if vocab <= _BLOCK:
        total = as_float64(xp.sum(weights, axis=-1))
        return _first_above(xp.cumulative_sum(as_float64(weights), axis=-1), uniform * total)
    whole = vocab - vocab % _BLOCK
    blocks = xp.reshape(weights[..., :whole], (*weights.shape[:-1], whole // _BLOCK, _BLOCK))
    sums = [xp.sum(blocks, axis=-1)]
    if whole < vocab:
        sums.append(xp.sum(weights[..., whole:], axis=-1, keepdims=True))
    starts = xp.cumulative_sum(as_float64(xp.concat(sums, axis=-1)), axis=-1, include_initial=True)
    wanted = uniform * starts[..., -1]
    block = _first_above(starts[..., 1:], wanted)
    inside = block[..., None] * _BLOCK + arange_like(weights, _BLOCK)
    is_token = inside < vocab
    chosen = xp.take_along_axis(weights, xp.where(is_token, inside, vocab - 1), axis=-1)
    before = xp.take_along_axis(starts, block[..., None], axis=-1)[..., 0]
    within = xp.cumulative_sum(kept(is_token, as_float64(chosen)), axis=-1)
    return block * _BLOCK + _first_above(within, wanted - before)


def _first_above(cumulative: Array, wanted: Array) -> Array:
    """Return where growing sums [..., N] first exceed ``wanted`` [...], at most where they end."""
    xp = namespace(cumulative)
    is_before = (cumulative <= wanted[..., None]) & (cumulative < cumulative[..., -1:])
    return xp.count_nonzero(is_before, axis=-1)


class SamplingDecisions:
    """Decisions from fresh uniforms: ``uniform(like)`` returns values in [0, 1) in the shape of ``like``."""

    def __init__(self, uniform: Callable[[Array], Array]) -> None:
        self._uniform = uniform

    def bernoulli(self, probability: Array) -> Array:
        """Return True with the given probability: never at 0, always at 1 (the comparison is strict)."""
        return self._uniform(probability) < probability

    def categorical(self, weights: Array) -> Array:
        """Draw an index in proportion to ``weights`` by inversion: one uniform per row."""
        return invert_cdf(weights, self._uniform(weights[..., 0]))


def replayed_decisions(uniforms: Array) -> SamplingDecisions:
    """Decide from given ``uniforms`` [B, N]: each call takes as many columns as it needs, left to right.

    Request b is decided by row b alone, so the same row gives the same verdict in any batch. Raises
    `ContractError` where a call does not decide for all B requests.

    >>> import numpy as np
    >>> decisions = replayed_decisions(np.array([[0.1, 0.9], [0.8, 0.2]]))
    >>> decisions.bernoulli(np.array([0.5, 0.5])).tolist()
    [True, False]
    """
    position = 0

    def take(like: Array) -> Array:
        nonlocal position
        if like.shape[:1] != uniforms.shape[:1]:
            raise ContractError(decided_for(like.shape[0] if like.ndim else 1, uniforms.shape[0]))
        count = prod(like.shape[1:])
        if position + count > uniforms.shape[1]:
            raise InvalidInputError(
                f"uniforms: {uniforms.shape[1]} columns, but more decisions were asked for"
            )
        taken = uniforms[:, position : position + count]
        position += count
        return taken.reshape(like.shape)

    return SamplingDecisions(take)


def numpy_decisions(generator: Array) -> SamplingDecisions:
    """Sample with a ``numpy.random.Generator``."""
    return SamplingDecisions(lambda like: generator.random(like.shape))


def torch_decisions(generator: Array = None) -> SamplingDecisions:
    """Sample with a ``torch.Generator`` (the global one by default), on the device of the probabilities."""
    import torch

    def uniform(like: Array) -> Array:
        # float64: a float32 uniform is a multiple of 2^-24, too coarse for chances near 0 or 1.
        return torch.rand(like.shape, dtype=torch.float64, device=like.device, generator=generator)

    return SamplingDecisions(uniform)
