"""The sampler contract that every adapter keeps, and the conversions adapters share, ours and users'.

``verify(draft_tokens [B, L], draft_probs [B, L, V], target_probs [B, L+1, V], generator)`` returns
``(tokens [B, L+1] int64 padded with -1, num_accepted [B] int64)``, all torch. Rows go into the engine in the
dtype they come in: float32 is what engines run on, float64 leaves rounding out of an exact law. Without a
generator the engine draws from torch's global stream, as it does in production. See
docs/guide/from-your-signature.md for adapters to copy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

import torch

from spec_oracle.errors import ContractError

Tensor: TypeAlias = torch.Tensor
Generator: TypeAlias = torch.Generator | None
Emission: TypeAlias = tuple[Tensor, Tensor]
Verify: TypeAlias = Callable[[Tensor, Tensor, Tensor, Generator], Emission]

PADDING = -1


def logits_of(probs: Tensor) -> Tensor:
    """Return log-probabilities, -inf where there is no mass: what a model with a top-k mask hands over."""
    return torch.log(probs)


def sample_bonus(last_rows: Tensor, is_greedy: Tensor | None = None) -> Tensor:
    """Sample the token after a fully accepted draft from its target rows [B, V], int64 [B, 1].

    For engines whose verifier takes the bonus token from its caller, the sampler of target-only decoding: the
    likeliest token for requests that are decoded greedily, bool [B].
    """
    drawn = torch.multinomial(last_rows, num_samples=1)
    if is_greedy is None:
        return drawn
    return torch.where(is_greedy[:, None], last_rows.argmax(dim=1, keepdim=True), drawn)


def from_padded(tokens: Tensor) -> Emission:
    """Return ``tokens`` [B, L+1], negative after the last emitted one, and the accepted lengths they show."""
    padded = tokens.to(torch.int64)
    return padded, (padded >= 0).sum(dim=1) - 1


def from_lengths(tokens: Tensor, num_accepted: Tensor) -> Emission:
    """Return ``tokens`` [B, L+1] of which ``num_accepted`` [B] and one more count, padded after these."""
    if tokens.ndim != 2:
        form = f"tokens [B, L+1], got an array of shape {list(tokens.shape)}"
        raise ContractError(f"from_lengths: expected {form}; from_accepted takes the next token alone")
    tau = num_accepted.to(torch.int64)
    position = torch.arange(tokens.shape[1], device=tokens.device)
    return torch.where(position <= tau[:, None], tokens.to(torch.int64), PADDING), tau


def from_accepted(draft_tokens: Tensor, num_accepted: Tensor, next_token: Tensor) -> Emission:
    """Return the emission that accepts ``num_accepted`` [B] drafted tokens and adds ``next_token`` [B]."""
    tau = num_accepted.to(torch.int64)[:, None]
    tokens = torch.nn.functional.pad(draft_tokens, (0, 1), value=PADDING)
    position = torch.arange(tokens.shape[1], device=tokens.device)
    return from_lengths(torch.where(position == tau, next_token.to(torch.int64)[:, None], tokens), tau[:, 0])


def fresh_seed(generator: torch.Generator) -> int:
    """Return a 56-bit seed of one call, for engines that key their own streams by a seed.

    It is made of the generator's state, which moves on. A drawn integer would do as well, but has no value
    while its law is traced.
    """
    return fresh_seeds(generator, 1)[0]


def fresh_seeds(generator: torch.Generator, count: int) -> list[int]:
    """Return so many different seeds, as `fresh_seed`; the generator's state, of 5 kB, is read once."""
    state = blake2b(generator.get_state().numpy().tobytes()).digest()
    torch.rand(1, generator=generator, device=generator.device)
    return [
        int.from_bytes(blake2b(state + request.to_bytes(8), digest_size=7).digest())
        for request in range(count)
    ]


@contextmanager
def drawing_from(generator: Generator) -> Iterator[None]:
    """Let torch's global stream of its device continue ``generator`` inside the block; None leaves it alone.

    Code inside must not be handed the generator itself: both would give the same numbers.
    """
    if generator is None:
        yield
        return
    get_state, set_state = torch.get_rng_state, torch.set_rng_state
    if generator.device.type != "cpu":
        streams = getattr(torch, generator.device.type)
        get_state = partial(streams.get_rng_state, generator.device)
        set_state = partial(streams.set_rng_state, device=generator.device)
    outside = get_state()
    set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(get_state())
        set_state(outside)
