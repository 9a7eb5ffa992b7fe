"""For the tests of mlx-vlm: logits processors apply to every token, with and without a drafter."""

import unittest

import mlx.core as mx
from mlx_vlm.generate import generate_step
from mlx_vlm.models.gemma4 import Model, ModelConfig
from mlx_vlm.models.gemma4.config import TextConfig, VisionConfig
from mlx_vlm.speculative.drafters.qwen3_dflash.config import DFlashConfig
from mlx_vlm.speculative.drafters.qwen3_dflash.dflash import DFlashDraftModel

VOCAB = 32
SIZES = {"hidden_size": 16, "intermediate_size": 16, "vocab_size": VOCAB}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}


def target():
    text = TextConfig(
        **SIZES,
        **HEADS,
        num_hidden_layers=2,
        layer_types=["full_attention"] * 2,
        global_head_dim=8,
        num_kv_shared_layers=0,
        hidden_size_per_layer_input=0,
    )
    vision = VisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, head_dim=16
    )
    return Model(ModelConfig(text, vision, vocab_size=VOCAB))


def drafter():
    layers = {"num_hidden_layers": 1, "target_layer_ids": [0], "num_target_layers": 2}
    return DFlashDraftModel(DFlashConfig(**SIZES, **HEADS, **layers, mask_token_id=0))


class TestSpeculativeLogitsProcessors(unittest.TestCase):
    def test_logit_bias(self):
        mx.random.seed(0)
        model, draft_model = target(), drafter()
        forbidden = {token: -1000.0 for token in range(VOCAB // 2)}

        def tokens(**drafting):
            options = {"max_tokens": 24, "temperature": 1.0, "logit_bias": forbidden, **drafting}
            return [int(token) for token, _ in generate_step(mx.array([[20]]), model, None, None, **options)]

        self.assertTrue(all(token not in forbidden for token in tokens()))
        speculative = tokens(draft_model=draft_model, draft_kind="dflash", draft_block_size=3)
        self.assertTrue(all(token not in forbidden for token in speculative), f"{speculative}")


if __name__ == "__main__":
    unittest.main()
