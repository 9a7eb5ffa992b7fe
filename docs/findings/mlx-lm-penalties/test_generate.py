"""For tests/test_generate.py of mlx-lm, in `TestGenerate`."""

import unittest

import mlx.core as mx

from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.llama import Model, ModelArgs


class TestSpeculativeLogitsProcessors(unittest.TestCase):
    def test_logits_processors_see_the_prompt(self):
        args = ModelArgs(
            model_type="llama",
            hidden_size=32,
            num_hidden_layers=1,
            intermediate_size=32,
            num_attention_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=16,
        )
        model, draft_model = Model(args), Model(args)
        prompt = [3, 1, 4, 1, 5]

        def histories(step, **kwargs):
            seen = []

            def processor(tokens, logits):
                seen.append(tokens.tolist())
                return logits

            kwargs |= {"max_tokens": 1, "logits_processors": [processor]}
            list(step(mx.array(prompt), model, **kwargs))
            return seen

        self.assertEqual(histories(generate_step)[0], prompt)
        first = histories(speculative_generate_step, draft_model=draft_model)[0]
        self.assertEqual(first, prompt)


if __name__ == "__main__":
    unittest.main()
