"""For the tests of mlx-vlm: EAGLE-3 with a draft vocabulary emits what the target emits without a drafter."""

import unittest

import mlx.core as mx
from mlx_vlm.generate import generate_step
from mlx_vlm.models.gemma4 import Model, ModelConfig
from mlx_vlm.models.gemma4.config import TextConfig, VisionConfig
from mlx_vlm.speculative.drafters.eagle3 import Eagle3DraftModel
from mlx_vlm.speculative.drafters.eagle3.config import Eagle3Config

VOCAB, DRAFT_VOCAB = 32, 2
SIZES = {"hidden_size": 16, "intermediate_size": 16, "vocab_size": VOCAB}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}


def target():
    text = TextConfig(
        **SIZES,
        **HEADS,
        num_hidden_layers=3,
        layer_types=["full_attention"] * 3,
        global_head_dim=8,
        num_kv_shared_layers=0,
        hidden_size_per_layer_input=0,
    )
    vision = VisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, head_dim=16
    )
    return Model(ModelConfig(text, vision, vocab_size=VOCAB))


def drafter():
    layer = {**SIZES, **HEADS, "num_hidden_layers": 1}
    ids = [0, 1, 2]
    return Eagle3DraftModel(
        Eagle3Config(
            transformer_layer_config=layer,
            draft_vocab_size=DRAFT_VOCAB,
            target_layer_ids=ids,
            capture_layer_ids=ids,
        )
    )


class TestEagle3DraftVocabulary(unittest.TestCase):
    def compare(self, **sampling):
        mx.random.seed(0)
        model, draft_model = target(), drafter()
        for prompt in ([1, 2, 3], [5, 4], [7]):
            prompts = mx.array([prompt])
            plain = generate_step(prompts, model, None, None, max_tokens=24, **sampling)
            speculative = generate_step(
                prompts,
                model,
                None,
                None,
                max_tokens=24,
                draft_model=draft_model,
                draft_kind="eagle3",
                draft_block_size=3,
                **sampling,
            )
            self.assertEqual([int(t) for t, _ in speculative], [int(t) for t, _ in plain])

    def test_greedy(self):
        self.compare(temperature=0.0)

    def test_sampler(self):
        # A sampler without randomness: the second most likely token
        self.compare(sampler=lambda logprobs: mx.argsort(logprobs, axis=-1)[..., -2])


if __name__ == "__main__":
    unittest.main()
