"""sglang: the chain verifier (a Triton kernel) and the DSpark block-parallel verifier (its torch path)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify
from spec_oracle.third_party.samplers.triton_interpreter import interpreted, require_interpreter
from spec_oracle.third_party.samplers.wheels import Names, load_alone, wheel

T = TypeVar("T")

_OPS = "sglang.kernels.ops.speculative"


class _Struct:
    """Stand in for `msgspec.Struct`: its subclasses are data classes."""

    def __init_subclass__(cls, *, frozen: bool = False) -> None:
        dataclass(cls, frozen=frozen)


def _same(value: T) -> T:
    """Stand in for decorators and wrappers of kernels that are not launched."""
    return value


_GIVEN: dict[str, Names] = {
    "msgspec": {"Struct": _Struct},
    "triton": {"jit": _same},
    "triton.language": {"constexpr": _same},
    f"{_OPS}.dspark.dispatch": {"inputs_on_cuda": lambda **_inputs: False},
}


def load_blockwise(*, reads_draft: bool) -> Verify:
    """Return `BlockwiseRejection.execute`: the token rule, or its point-mass form without draft rows.

    Candidates int64 [B, L+1] (column 0 is the token before the draft), target logits [B (L+1), V], draft
    logits [B, L, V] or None, temperatures [B]. Draws from a stream of its own, keyed by the server's seed and
    a step counter: without a generator the calls are the steps of one server, with one each call is the first
    step of a server with a fresh seed.
    """
    module = load_alone(f"{_OPS}.dspark.blockwise_rejection", wheel("sglang").fetched_folder(), _GIVEN)
    server = module.make_rejection_noise(0, "cpu")

    def verify(tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None) -> Emission:
        batch, _, vocab = draft.shape
        own = generator is not None
        noise = module.make_rejection_noise(contract.fresh_seed(generator), "cpu") if own else server
        accepted, bonus, _trimmed = module.BlockwiseRejection.execute(
            candidates=torch.nn.functional.pad(tokens, (1, 0)),
            target_logits=contract.logits_of(target).reshape(-1, vocab),
            draft_logits=contract.logits_of(draft) if reads_draft else None,
            target_temperatures=torch.ones(batch),
            draft_temperatures=torch.ones(batch),
            noise=noise,
        )
        return contract.from_accepted(tokens, accepted, bonus)

    return verify


@dataclass(frozen=True)
class Chain:
    """`chain_speculative_sampling_triton`, called as verification of a single chain does."""

    kernel: Callable[..., object]
    block: bool

    def __call__(
        self, tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None
    ) -> Emission:
        """Verify with uniforms from `torch.rand`, L + 1 of them per request."""
        with contract.drawing_from(generator):
            uniforms = torch.rand((len(tokens), tokens.shape[1] + 1), dtype=torch.float32)
        return self.with_uniforms(tokens, draft, target, uniforms)

    def with_uniforms(self, tokens: Tensor, draft: Tensor, target: Tensor, uniforms: Tensor) -> Emission:
        """Verify with given ``uniforms`` [B, L+1]: L accept uniforms, then one that samples the next token.

        The kernel takes candidates int64 [B, L+1], indices int64 [B, L+1], float32 uniforms [B, L+1] (the
        last column unread) and [B], float32 rows; it writes int32 results in place.
        """
        batch, length = tokens.shape
        device = tokens.device
        slots = torch.arange(batch * (length + 1), device=device).reshape(batch, length + 1)
        predicts = torch.full((batch * (length + 1),), -1, dtype=torch.int32, device=device)
        accept_index = torch.full((batch, length + 1), -1, dtype=torch.int32, device=device)
        accepted = torch.zeros(batch, dtype=torch.int32, device=device)
        accept = uniforms.to(torch.float32)
        self.kernel(
            predicts,
            accept_index,
            accepted,
            torch.nn.functional.pad(tokens, (1, 0)),
            slots,
            None,
            None,
            accept.contiguous(),
            accept[:, length].contiguous(),
            target.to(torch.float32).contiguous(),
            draft.to(torch.float32).contiguous(),
            1.0,
            1.0,
            True,
            block_verification=self.block,
        )
        last = accept_index.gather(1, accepted.to(torch.int64)[:, None])
        return contract.from_accepted(tokens, accepted, predicts[last[:, 0].to(torch.int64)])


def load_chain(*, block: bool, device: str = "cpu") -> Chain:
    """Return the chain verifier with the token rule, or with block verification.

    On a CPU the kernel is interpreted; on any other device it is compiled.
    """
    on_cpu = device == "cpu"
    if on_cpu:
        require_interpreter()
    module = load_alone(f"{_OPS}.reject_sampling", wheel("sglang").fetched_folder())
    launch = module.chain_speculative_sampling_triton
    return Chain(interpreted(launch) if on_cpu else launch, block)
