"""Randomness at its edges: uniforms that are exactly 0, or the largest number below 1.

Both can be drawn, about once in 2^53 (float64) or 2^24 (float32) times: too rarely for any test by sampling,
often enough for a service.
"""

import contextlib
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.nextafter(1.0, 0.0))


class EdgeGenerator(np.random.Generator):
    """A generator whose uniforms are 0, ordinary, or `LARGEST`, in equal parts; other laws are as always."""

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return uniforms of the given shape; ``out`` is filled, too."""
        ordinary = super().random(size, dtype=np.float64)
        edges = np.asarray(_edged(np.atleast_1d(ordinary), self.integers(3, size=np.shape(ordinary) or 1)))
        drawn = edges.astype(dtype).reshape(np.shape(ordinary)) if size is not None else dtype(edges[0])
        if out is not None:
            out[...] = drawn
            return out
        return drawn


def _edged(uniforms: NDArray[np.float64], kind: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(kind == 0, 0.0, np.where(kind == 1, LARGEST, uniforms))


@contextlib.contextmanager
def edge_uniforms(array: str, seed: int) -> Iterator[Any]:
    """Yield a generator of edge uniforms for the library, while the global ones draw them, too."""
    edge = EdgeGenerator(np.random.PCG64(seed))
    patches: list[Any] = [
        mock.patch.object(np.random, "rand", lambda *shape: edge.random(shape or None)),
        mock.patch.object(np.random, "random", edge.random),
        mock.patch.object(np.random, "random_sample", edge.random),
        mock.patch.object(random, "random", lambda: float(edge.random())),  # noqa: PT008
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        if array == "torch":
            stack.enter_context(_torch_edges(edge))
            yield None
        else:
            yield edge


def _torch_edges(edge: EdgeGenerator) -> Any:
    """Return a mode in which torch's uniforms are edge uniforms of their own precision."""
    import torch
    from torch.overrides import TorchFunctionMode

    uniform = {torch.rand, torch.rand_like, torch.Tensor.uniform_}

    class Edges(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            drawn = func(*args, **(kwargs or {}))
            if func in uniform:
                largest = torch.nextafter(
                    torch.ones((), dtype=drawn.dtype), torch.zeros((), dtype=drawn.dtype)
                )
                kind = torch.from_numpy(edge.integers(3, size=tuple(drawn.shape)))
                drawn[kind == 0] = 0.0
                drawn[kind == 1] = largest
            return drawn

    return Edges()
