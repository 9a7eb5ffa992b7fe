"""For tests/ut/sample/test_rejection_sampler.py of vllm-ascend: the torch path, on a CPU."""

from types import SimpleNamespace

import pytest
import torch

from vllm_ascend.sample import rejection_sampler


def pageable(factory):
    return lambda *args, pin_memory=False, **kwargs: factory(*args, **kwargs)


@pytest.fixture
def block_verify(monkeypatch):
    """Enable block verification; pinned memory needs an NPU."""
    config = SimpleNamespace(
        enable_reduce_sample=False,
        rejection_sampler_config=SimpleNamespace(
            enable_block_verify=True,
            enable_entropy_verify=False,
            posterior_threshold=0.95,
            posterior_alpha=0.4,
        ),
    )
    uniforms = lambda num_tokens, *_: torch.rand(num_tokens, dtype=torch.float64)
    monkeypatch.setattr(rejection_sampler, "get_ascend_config", lambda: config)
    monkeypatch.setattr(rejection_sampler, "generate_uniform_probs", uniforms)
    monkeypatch.setattr(rejection_sampler, "HAS_TRITON", False)
    monkeypatch.setattr(rejection_sampler, "GREEDY_TEMPERATURE", 0)
    monkeypatch.setattr(rejection_sampler, "PLACEHOLDER_TOKEN_ID", -1)
    for name in ("arange", "ones", "tensor"):
        monkeypatch.setattr(torch, name, pageable(getattr(torch, name)))


@pytest.mark.parametrize("reports_probs", [False, True], ids=["ngram", "draft_model"])
def test_block_verify_keeps_the_target_distribution(block_verify, reports_probs):
    # The target is a fair coin; the drafter proposes token 0 three times, with certainty.
    torch.manual_seed(0)
    batch, length = 20_000, 3
    output = rejection_sampler.rejection_sample(
        draft_token_ids=torch.zeros(batch * length, dtype=torch.int64),
        num_draft_tokens=[length] * batch,
        max_spec_len=length,
        cu_num_draft_tokens=torch.arange(1, batch + 1) * length,
        draft_probs=torch.tensor([[1.0, 0.0]]).repeat(batch * length, 1) if reports_probs else None,
        target_logits_or_tuple=torch.zeros(batch * length, 2),
        bonus_token_ids=torch.randint(2, (batch, 1)),
        sampling_metadata=SimpleNamespace(
            all_greedy=False,
            all_random=True,
            temperature=torch.ones(batch),
            generators={},
        ),
    )
    # the standard error is 0.0035
    assert (output[:, 0] == 0).float().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (output[:, length] >= 0).float().mean().item() == pytest.approx(0.125, abs=0.02)
