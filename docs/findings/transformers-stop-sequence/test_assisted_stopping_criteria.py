"""For tests/generation/test_utils.py of transformers."""

import copy
import unittest

from transformers import is_torch_available
from transformers.testing_utils import require_torch


if is_torch_available():
    import torch

    from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteria, StoppingCriteriaList

    class EndsWith(StoppingCriteria):
        def __init__(self, stop_ids):
            self.stop_ids = stop_ids

        def __call__(self, input_ids, scores, **kwargs):
            return (input_ids[:, -len(self.stop_ids) :] == self.stop_ids).all(dim=-1)


@require_torch
class AssistedDecodingStoppingCriteriaTest(unittest.TestCase):
    def test_assisted_decoding_stops_inside_an_accepted_block(self):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
        model = LlamaForCausalLM(config).eval()
        # the assistant is the model itself, so every candidate is accepted
        assistant = copy.deepcopy(model)
        assistant.generation_config.num_assistant_tokens = 5
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        assistant.generation_config.assistant_confidence_threshold = 0.0

        input_ids = torch.tensor([[1, 2, 3]])
        kwargs = {"attention_mask": torch.ones_like(input_ids), "do_sample": False, "max_new_tokens": 12}
        stop_ids = model.generate(input_ids, **kwargs)[0, 3:5]
        kwargs["stopping_criteria"] = StoppingCriteriaList([EndsWith(stop_ids)])

        expected = model.generate(input_ids, **kwargs)
        assisted = model.generate(input_ids, assistant_model=assistant, **kwargs)

        self.assertListEqual(expected.tolist(), assisted.tolist())
