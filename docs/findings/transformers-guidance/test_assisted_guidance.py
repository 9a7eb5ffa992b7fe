"""For tests/generation/test_utils.py of transformers."""

import copy
import unittest

from transformers import is_torch_available
from transformers.testing_utils import require_torch


if is_torch_available():
    import torch

    from transformers import LlamaConfig, LlamaForCausalLM


@require_torch
class AssistedDecodingGuidanceTest(unittest.TestCase):
    def check_greedy_is_kept(self, **drafting):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            initializer_range=0.5,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
        model = LlamaForCausalLM(config).eval()
        if "prompt_lookup_num_tokens" not in drafting:
            assistant = LlamaForCausalLM(copy.deepcopy(config)).eval()
            assistant.generation_config.num_assistant_tokens = 3
            assistant.generation_config.num_assistant_tokens_schedule = "constant"
            assistant.generation_config.assistant_confidence_threshold = 0.0
            drafting = {"assistant_model": assistant}
        input_ids = torch.tensor([[1, 2, 3, 1, 2]])
        kwargs = {"attention_mask": torch.ones_like(input_ids), "do_sample": False, "max_new_tokens": 24}
        expected = model.generate(input_ids, guidance_scale=1.5, **kwargs)
        assisted = model.generate(input_ids, guidance_scale=1.5, **kwargs, **drafting)
        self.assertListEqual(expected.tolist(), assisted.tolist())

    def test_guidance_is_the_same_with_an_assistant(self):
        self.check_greedy_is_kept()

    def test_guidance_is_the_same_with_prompt_lookup(self):
        self.check_greedy_is_kept(prompt_lookup_num_tokens=3)
