"""For tests/generation/test_utils.py of transformers."""

import unittest

from transformers import is_torch_available
from transformers.testing_utils import require_torch


if is_torch_available():
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


@require_torch
class AssistedDecodingStopStringsTest(unittest.TestCase):
    def test_stop_strings_are_accepted_with_an_assistant(self):
        torch.manual_seed(0)
        words = {letter: token for token, letter in enumerate("abcdefgh")}
        letters = Tokenizer(models.WordLevel(words, unk_token="a"))
        letters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
        letters.decoder = decoders.Fuse()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters)
        config = LlamaConfig(
            vocab_size=8,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
        model = LlamaForCausalLM(config).eval()
        assistant = LlamaForCausalLM(config).eval()
        input_ids = torch.tensor([[1, 2, 3]])
        kwargs = {"attention_mask": torch.ones_like(input_ids), "do_sample": False, "max_new_tokens": 8}
        try:
            model.generate(
                input_ids, assistant_model=assistant, stop_strings=["ab"], tokenizer=tokenizer, **kwargs
            )
        except ValueError as error:
            self.fail(f"generate with stop_strings, tokenizer and assistant_model raised: {error}")
