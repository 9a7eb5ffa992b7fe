"""For the tests of lmdeploy's rejection sampling."""

from unittest import mock

import torch

from lmdeploy.pytorch.backends.default.rejection_sampling import DefaultRejectionSamplingImpl


class TestZeroUniform:

    def test_masked_draft_is_rejected(self):
        # token 2 is masked in the target and was drafted
        target_logits = torch.tensor([[[0.0, 0.0, -torch.inf]]])
        draft_token_ids = torch.tensor([[2]])
        bonus_token_ids = torch.tensor([0])
        draft_probs = torch.full((1, 1, 3), 1 / 3)

        for probs in (draft_probs, None):
            with mock.patch('torch.rand', torch.zeros):
                output_token_ids, _, _ = DefaultRejectionSamplingImpl().forward(
                    target_logits, draft_token_ids, bonus_token_ids, is_greedy=None, draft_probs=probs)
            assert output_token_ids[0, 0] != 2
