"""The law of one verification under the plain contract.

Plain contract: ``verify(draft_tokens, draft_probs, target_probs, generator) -> (tokens, num_accepted)`` on
arrays [B, L], [B, L, V], [B, L+1, V] of numpy or torch; ``tokens`` [B, L+1] is padded with -1.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.interception.calls import call_law
from spec_oracle.exact.interception.libraries.numpy_random import EnumeratedGenerator

PlainVerify: TypeAlias = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
Emission: TypeAlias = tuple[int, ...]


def verdict_law(
    verify: PlainVerify,
    draft_tokens: Any,
    draft_probs: Any,
    target_probs: Any,
    *,
    max_branches: int = 100_000,
    max_seconds: float = math.inf,
) -> dict[Emission, float]:
    """Return the exact law of the emission for one draft: probability by emitted tokens (1 to L+1 of them).

    draft_tokens int [L], draft_probs [L, V], target_probs [L+1, V], probability mass, numpy or torch (without
    a batch axis: the code sees a batch of one). Errors as `enumerate_calls`; `InvalidInputError` when
    num_accepted and the padding disagree.
    """

    def call() -> tuple[Any, Any]:
        inputs = (_copied(draft_tokens), _copied(draft_probs), _copied(target_probs))
        return verify(*inputs, _generator(draft_tokens))

    return call_law(call, _emission, max_branches=max_branches, max_seconds=max_seconds)


def _copied(array: Any) -> Any:
    """Return a fresh copy with a batch axis, so that no call sees what another one changed."""
    return array[None].clone() if hasattr(array, "clone") else array[None].copy()


def _generator(like: Any) -> Any:
    """Return the generator that suits the array library."""
    if isinstance(like, np.ndarray):
        return EnumeratedGenerator()
    import torch

    return torch.Generator()


def _emission(result: tuple[Any, Any]) -> Emission:
    return emissions(*result)[0]


def emissions(tokens: Any, num_accepted: Any) -> list[Emission]:
    """Return each request's emitted tokens; raises `InvalidInputError` if padding and count disagree."""
    rows = []
    for row, accepted in zip(np.asarray(tokens).tolist(), np.asarray(num_accepted).tolist(), strict=True):
        emitted = tuple(row[: accepted + 1])
        if -1 in emitted or any(token != -1 for token in row[accepted + 1 :]):
            raise InvalidInputError(f"tokens: {row} does not hold {accepted} accepted tokens and one more")
        rows.append(emitted)
    return rows
