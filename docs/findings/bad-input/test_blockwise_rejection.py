"""For the tests of sglang's DSpark verification."""

import unittest
from unittest import mock

import torch

from sglang.kernels.ops.speculative.dspark.blockwise_rejection import (
    blockwise_rejection_torch,
    make_rejection_noise,
)


def zeros(*size, generator=None, **kwargs):
    return torch.zeros(*size, **kwargs)


class TestZeroUniform(unittest.TestCase):
    def test_the_only_possible_token_is_sampled(self):
        # the target allows token 2 alone; token 0 was drafted and has to be rejected
        target_logits = torch.tensor([[-torch.inf, -torch.inf, 0.0]] * 2)
        with mock.patch("torch.rand", zeros):
            accepted, token, _ = blockwise_rejection_torch(
                candidates=torch.tensor([[1, 0]]),
                target_logits=target_logits,
                draft_logits=torch.zeros(1, 1, 3),
                target_temperatures=torch.ones(1),
                draft_temperatures=torch.ones(1),
                noise=make_rejection_noise(0, "cpu"),
            )
        self.assertEqual(accepted.item(), 0)
        self.assertEqual(token.item(), 2)


if __name__ == "__main__":
    unittest.main()
