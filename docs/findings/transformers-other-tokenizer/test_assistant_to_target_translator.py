"""For tests/generation/test_candidate_generator.py of transformers, `TestAssistantToTargetTranslator`."""

import unittest

from transformers import is_torch_available
from transformers.testing_utils import require_torch


if is_torch_available():
    import torch

    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.generation.candidate_generator import AssistantToTargetTranslator


class VocabTokenizer:
    """A tokenizer whose `get_vocab()` lists its tokens in the given order, as a hash map does in any order."""

    def __init__(self, vocab):
        self._vocab = vocab

    def get_vocab(self):
        return self._vocab

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": []}


@require_torch
class AssistantToTargetTranslatorPrunedHeadTest(unittest.TestCase):
    def test_ids_and_logits_of_a_pruned_head_name_the_same_target_tokens(self):
        # "only" is a token of the assistant alone, so the head of the assistant is pruned
        target_tokenizer = VocabTokenizer({"a": 0, "b": 1, "c": 2})
        assistant_tokenizer = VocabTokenizer({"only": 3, "b": 2, "a": 1, "c": 0})
        sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        assistant_model = LlamaForCausalLM(LlamaConfig(vocab_size=4, **sizes))
        translator = AssistantToTargetTranslator(
            target_tokenizer,
            assistant_tokenizer,
            target_vocab_size=3,
            assistant_model=assistant_model,
            assistant_prune_lm_head=True,
        )

        columns = torch.arange(3)
        ids = translator.get_target_ids(torch.empty(1, 0), torch.empty(1, 0, dtype=torch.long), columns[None])[0]
        # row i prefers column i of the pruned head
        logits = translator.get_target_logits(torch.eye(3)[None])[0]

        self.assertListEqual(logits.argmax(dim=-1).tolist(), ids.tolist())
