"""Decision sources that sample: the ones to use in production and in statistical tests."""

from collections.abc import Callable
from math import prod

from verifiers.arrays import Array, in_working_precision, namespace
from verifiers.errors import InvalidInputError


def invert_cdf(weights: Array, uniform: Array) -> Array:
    """Return the index at which the normalised cumulative ``weights`` first exceed ``uniform``.

    Shapes: weights [..., V], uniform [...] in [0, 1]; returns int [...]. An index of weight zero is never
    returned while a positive weight exists, whatever the rounding and even for a uniform of exactly 0 or 1.

    >>> import numpy as np
    >>> invert_cdf(np.array([[1.0, 0.0, 2.0, 1.0]] * 4), np.array([0.0, 0.25, 0.75, 1.0])).tolist()
    [0, 2, 3, 3]
    """
    xp = namespace(weights)
    cumulative = xp.cumulative_sum(xp.astype(in_working_precision(weights), xp.float64), axis=-1)
    total = cumulative[..., -1:]
    index = xp.sum(xp.astype(cumulative <= uniform[..., None] * total, xp.int64), axis=-1)
    last_positive = xp.sum(xp.astype(cumulative < total, xp.int64), axis=-1)
    return xp.minimum(index, last_positive)


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

    Request b is decided by row b alone, so the same row gives the same verdict in any batch.

    >>> import numpy as np
    >>> decisions = replayed_decisions(np.array([[0.1, 0.9], [0.8, 0.2]]))
    >>> decisions.bernoulli(np.array([0.5, 0.5])).tolist()
    [True, False]
    """
    position = 0

    def take(like: Array) -> Array:
        nonlocal position
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
