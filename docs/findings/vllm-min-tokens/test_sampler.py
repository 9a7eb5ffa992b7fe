"""For tests/v1/sample/test_sampler.py of vLLM: `min_tokens` and the token after the drafted ones."""

from types import SimpleNamespace

import pytest
import torch

from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessors, MinTokensLogitsProcessor
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.sampler import Sampler

STOP_TOKEN, VOCAB_SIZE = 2, 4


def metadata_with_min_tokens(min_tokens: int, output: list[int], drafts: list[int]) -> SamplingMetadata:
    params = SamplingParams(min_tokens=min_tokens, stop_token_ids=[STOP_TOKEN])
    processor = MinTokensLogitsProcessor(SimpleNamespace(), torch.device("cpu"), False)
    processor.update_state(BatchUpdate(1, removed=[], added=[(0, params, [0], output)], moved=[]))
    return SamplingMetadata(
        temperature=torch.ones(1),
        all_greedy=False,
        all_random=True,
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=None,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=torch.zeros(1),
        presence_penalties=torch.zeros(1),
        repetition_penalties=torch.ones(1),
        output_token_ids=[output],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors([processor]),
        spec_token_ids=[drafts],
    )


@pytest.mark.parametrize(
    ("min_tokens", "is_masked"),
    [
        (2, False),  # reached before the last draft
        (3, False),  # reached with the last draft
        (4, True),  # reached with the bonus token itself
        (5, True),
    ],
)
def test_min_tokens_counts_drafts_before_the_bonus_token(min_tokens: int, is_masked: bool):
    metadata = metadata_with_min_tokens(min_tokens, output=[0], drafts=[0, 1])
    logits = torch.zeros(1, VOCAB_SIZE)
    found = Sampler().apply_logits_processors(logits, metadata, predict_bonus_token=True)
    expected = torch.zeros(1, VOCAB_SIZE)
    if is_masked:
        expected[0, STOP_TOKEN] = -float("inf")
    assert found.tolist() == expected.tolist()
