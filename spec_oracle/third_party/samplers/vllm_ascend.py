"""vllm-ascend: the torch path of `vllm_ascend.sample.rejection_sampler.rejection_sample`.

On an NPU with Triton the plug-in launches kernels of the same contract; without it, this path runs.
"""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from unittest import mock

import torch

from spec_oracle.contracts.adapting import Generator, Tensor, Verify, logits_of
from spec_oracle.third_party.samplers.vllm_v1 import flat_verify
from spec_oracle.third_party.samplers.wheels import load_alone, wheel

_TAKE_PROBABILITIES = ("0.11.0", "0.13.0")


def _uniforms(
    num_tokens: int, _drafts: list[int], _generators: dict[int, Generator], device: torch.device
) -> Tensor:
    """Stand in for vLLM's `generate_uniform_probs` of requests without seeds of their own."""
    return torch.rand((num_tokens,), dtype=torch.float64, device=device)


def _given(*, block: bool) -> dict[str, dict[str, object]]:
    how = {"enable_entropy_verify": False, "posterior_threshold": 0.95, "posterior_alpha": 0.4}
    sampler = SimpleNamespace(enable_block_verify=block, **how)
    config = SimpleNamespace(enable_reduce_sample=False, rejection_sampler_config=sampler)
    return {
        "vllm.logger": {"logger": mock.Mock()},
        "vllm.triton_utils": {"HAS_TRITON": False},
        "vllm.v1.sample.rejection_sampler": {
            "GREEDY_TEMPERATURE": 0,
            "MAX_SPEC_LEN": 32,
            "PLACEHOLDER_TOKEN_ID": -1,
            "generate_uniform_probs": _uniforms,
        },
        "vllm_ascend.ascend_config": {"get_ascend_config": lambda: config},
    }


class _PageableTorch(ModuleType):
    """torch whose factories ignore ``pin_memory``, which needs an accelerator."""

    def __getattr__(self, name: str) -> object:
        value = getattr(torch, name)
        return _pageable(value) if name in ("arange", "full", "ones", "tensor") else value


def _pageable(factory: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def build(*arguments: object, pin_memory: bool = False, **options: object) -> Tensor:
        del pin_memory
        return factory(*arguments, **options)

    return build


def load(version: str, *, block: bool = False, reads_draft: bool = True) -> Verify:
    """Return the sampler of ``version``; ``block`` is the switch that 0.23.0 and later have.

    Before 0.23.0 the block rule runs by default from three drafted tokens on (0.11.0 has none). Uniforms are
    float64, corrections come from an exponential race with one noise row per request, the bonus token from
    the caller. Rows are target probabilities up to 0.13.0, logits afterwards.
    """
    folder = wheel("vllm-ascend", version).fetched_folder()
    module = load_alone("vllm_ascend.sample.rejection_sampler", folder, _given(block=block))
    vars(module)["torch"] = _PageableTorch("torch")
    as_rows, greedy = torch.clone if version in _TAKE_PROBABILITIES else logits_of, module.GREEDY_TEMPERATURE
    return flat_verify(module.rejection_sample, as_rows, reads_draft=reads_draft, greedy_temperature=greedy)
