"""For tests/test_generate_speculatively.py of litgpt."""

import pytest
import torch
from torch import nn

import litgpt.generate.speculative_decoding as generate

# Next-token distributions after every token
DRAFT = [0.3, 0.4, 0.3]
TARGET = [0.5, 0.45, 0.05]


class Model(nn.Module):
    def __init__(self, probs):
        super().__init__()
        self.logits = torch.tensor(probs).log()
        self.max_seq_length = 64

    def forward(self, idx, input_pos=None, input_pos_maxp1=None):
        return self.logits.expand(*idx.shape, -1)  # (B, T, C)


def complete(max_new_tokens, **kwargs):
    prompt = torch.tensor([2, 2])
    tokens, _ = generate.generate(
        Model(DRAFT),
        Model(TARGET),
        prompt,
        len(prompt) + max_new_tokens,
        include_prompt=False,
        speculative_k=1,
        **kwargs,
    )
    return tokens.tolist()


@pytest.mark.parametrize("greedy", [{"temperature": 0.0}, {"top_p": 0.0}], ids=["temperature", "top_p"])
def test_greedy_tokens_are_the_most_probable_ones_of_the_target_model(greedy):
    assert set(complete(10, **greedy)) == {0}


def test_top_p_samples_from_the_target_model():
    draft, target = torch.ones(16) / 16, torch.arange(1, 17) / 136
    expected = torch.where(target > 4 / 136, target, 0.0)  # top_p=0.9 leaves out four tokens
    torch.manual_seed(0)
    counts = torch.zeros(16)
    for _ in range(3000):
        tokens = generate.speculative_decoding(
            Model(draft.tolist()),
            Model(target.tolist()),
            torch.tensor([2]),
            torch.tensor([1]),
            2,
            speculative_k=1,
            top_p=0.9,
        )
        counts[tokens[0]] += 1
    # standard errors are 0.006 at most
    assert torch.allclose(counts / counts.sum(), expected / expected.sum(), atol=0.03)


@pytest.mark.parametrize("max_new_tokens", [1, 2, 5])
def test_as_many_tokens_as_requested(max_new_tokens):
    torch.manual_seed(0)
    assert len(complete(max_new_tokens, top_k=1)) == max_new_tokens


def test_first_token_is_the_sample_of_the_target_model(monkeypatch):
    samples = iter([2, 1])  # after the prompt: of the draft model, of the target model
    monkeypatch.setattr(generate, "next_token", lambda *args, **kwargs: torch.tensor([next(samples)]))
    assert complete(3)[0] == 1


def test_first_token_can_be_a_stop_token():
    assert complete(5, top_k=1, stop_tokens=[0]) == []
