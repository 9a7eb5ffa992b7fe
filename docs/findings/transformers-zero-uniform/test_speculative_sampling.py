"""For tests/generation/test_utils.py of transformers, beside `test_speculative_sampling`."""

import unittest
from unittest import mock

from transformers import is_torch_available
from transformers.testing_utils import require_torch


if is_torch_available():
    import torch

    from transformers.generation.utils import _speculative_sampling


@require_torch
class SpeculativeSamplingZeroUniformTest(unittest.TestCase):
    def test_masked_candidate_is_rejected_when_the_uniform_is_zero(self):
        candidate_input_ids = torch.tensor([[2]])
        candidate_logits = torch.tensor([[[0.0, 0.0, 0.0]]])
        # a logits processor has masked token 2 in both rows of the main model
        new_logits = torch.tensor([[[0.0, 0.0, -torch.inf], [0.0, 0.0, -torch.inf]]])

        # `torch.rand_like` in float32 returns multiples of 2**-24, so 0.0 once in 2**24 samples
        with mock.patch("torch.rand_like", torch.zeros_like):
            valid_tokens, n_matches = _speculative_sampling(candidate_input_ids, candidate_logits, 1, new_logits)

        self.assertEqual(n_matches.item(), 0)
        self.assertNotIn(2, valid_tokens.tolist()[0])
