"""vLLM, first generation: `RejectionSampler` and `TypicalAcceptanceSampler`, batched plain torch."""

import logging
from types import ModuleType, SimpleNamespace
from typing import Protocol
from unittest import mock

import torch

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify
from spec_oracle.third_party.samplers.wheels import Names, load_alone, wheel

_LAYERS = "vllm.model_executor.layers"
_GIVEN: dict[str, Names] = {
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.platforms": {"current_platform": SimpleNamespace(simple_compile_backend="eager")},
}


def _layer(version: str, name: str) -> ModuleType:
    # Functions as they are: the same answers, and no C++ compiler needed.
    with mock.patch.object(torch, "compile", return_value=lambda function: function):
        return load_alone(f"{_LAYERS}.{name}", wheel("vllm", version).fetched_folder(), _GIVEN)


class _Layer(Protocol):
    def init_tensors(self, device: str, device_type: str) -> None: ...
    def __call__(self, **given: Tensor) -> Tensor: ...


def _verify_with(sampler: _Layer) -> Verify:
    """Probabilities [B, L+1, V] and [B, L, V], bonus int64 [B, 1]; returns int64 [B, L+1] padded with -1."""
    sampler.init_tensors("cpu", "cpu")

    def verify(tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None) -> Emission:
        with contract.drawing_from(generator):
            return contract.from_padded(
                sampler(
                    target_with_bonus_probs=target,
                    bonus_token_ids=contract.sample_bonus(target[:, -1]),
                    draft_probs=draft,
                    draft_token_ids=tokens,
                )
            )

    return verify


def load_rejection(version: str) -> Verify:
    """Return the token rule: uniforms from `torch.rand`, corrections by an exponential race."""
    layer = _layer(version, "rejection_sampler")
    return _verify_with(layer.RejectionSampler(strict_mode=False, use_flashinfer=False))


def load_typical(version: str) -> Verify:
    """Return typical acceptance with the engine's default thresholds (`--typical-acceptance-sampler-*`)."""
    layer = _layer(version, "typical_acceptance_sampler")
    return _verify_with(layer.TypicalAcceptanceSampler(posterior_threshold=0.09, posterior_alpha=0.3))
