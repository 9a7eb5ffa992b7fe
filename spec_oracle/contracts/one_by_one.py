"""Samplers that verify one request at a time, under the sampler contract of batches; numpy or torch."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from verifiers.arrays import Array, namespace

VerifyOne: TypeAlias = Callable[[Array, Array, Array, Any], Sequence[Any]]
"""([L], [L, V], [L+1, V], generator or uniforms [L+1]) -> the emitted token ids, 1 to L+1.

With ``is_batch`` the arrays are those of a batch of one: [1, L], [1, L, V], [1, L+1, V], [1, L+1].
"""


def one_by_one(
    verify_one: VerifyOne,
    draft_tokens: Array,
    draft_probs: Array,
    target_probs: Array,
    randomness: Any,
    *,
    is_batch: bool = False,
) -> tuple[Array, Array]:
    """Verify the requests of a batch one after the other: [B, L], [B, L, V], [B, L+1, V].

    ``randomness`` is the generator of the contract, from which all requests sample in turn, or uniforms
    [B, L+1]. Returns tokens int64 [B, L+1], padded with -1, and the number of accepted tokens int64 [B].
    """
    batch, length = draft_tokens.shape
    tokens = namespace(draft_tokens).full((batch, length + 1), -1)
    accepted = namespace(draft_tokens).zeros(batch, dtype=tokens.dtype)
    for request in range(batch):
        one = slice(request, request + 1) if is_batch else request
        given = randomness[one] if hasattr(randomness, "shape") else randomness
        emitted = verify_one(draft_tokens[one], draft_probs[one], target_probs[one], given)
        for place, token in enumerate(emitted):
            tokens[request, place] = token
        accepted[request] = len(emitted) - 1
    return tokens, accepted
