"""Triton kernels of engines, row by row against the built-in rules that read the same uniforms."""

from importlib.util import find_spec

import pytest
import torch

import verifiers
from gpu_tests.rows import drawn_drafts, on_device
from verifiers.sampling import invert_cdf

# An interpreted kernel is slow: few rows. A compiled one gets as many as a server has in an hour.
SIZES = {"cpu": [(5, 64, 3), (97, 32, 4)], "cuda": [(5, 4096, 3), (32_003, 256, 7), (151_936, 64, 4)]}


class Coins:
    """Decides like the kernels: coin i < L for drafted token i, the last uniform [B] by inversion.

    A rule's weights of its accepted lengths hold the chance of each coin: that of the first to fail
    (token), or, from the end, of the last to succeed (block).
    """

    def __init__(self, uniforms, *, block):
        self._coins, self._last, self._block = uniforms[:, :-1], uniforms[:, -1], block
        self._lengths_are_next = True

    def categorical(self, weights):
        if not self._lengths_are_next:
            return invert_cdf(weights, self._last)
        self._lengths_are_next = False
        if self._block:
            success = self._coins < (weights / weights.cumsum(dim=1))[:, 1:]
            numbers = torch.arange(1, weights.shape[1], device=weights.device)
            return (success * numbers).amax(dim=1)
        reached = weights.flip(1).cumsum(dim=1).flip(1)
        success = self._coins < reached[:, 1:] / reached[:, :-1]
        return success.to(torch.int64).cumprod(dim=1).sum(dim=1)


def kernel_and_rule(block, size, device):
    """Return what the sglang chain kernel and the built-in rule emit for the same rows and uniforms."""
    from spec_oracle.third_party.samplers.sglang import load_chain

    vocab, batch, length = size
    drafts = on_device(drawn_drafts(vocab, batch, length, 1), device, torch.float32)
    paths = drafts.paths
    uniforms = torch.rand((batch, length + 1), generator=torch.Generator().manual_seed(9)).to(device)
    emission = load_chain(block=block, device=device).with_uniforms(
        paths.tokens[:, 0], paths.draft_probs[:, 0], paths.target_probs[:, 0], uniforms
    )
    verdict = verifiers.get("block" if block else "token").verify(drafts, Coins(uniforms, block=block))
    return emission, verdict


@pytest.mark.engines
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("size", SIZES["cpu"])
def test_the_interpreted_sglang_chain_agrees_with_the_built_in_rule(block, size):
    (tokens, accepted), verdict = kernel_and_rule(block, size, "cpu")
    assert torch.equal(accepted.to(torch.int64), verdict.num_accepted)
    assert torch.equal(tokens.to(torch.int64), verdict.emitted)


@pytest.mark.cuda
@pytest.mark.engines
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("size", SIZES["cuda"])
def test_the_compiled_sglang_chain_agrees_with_the_built_in_rule(block, size, device):
    (tokens, accepted), verdict = kernel_and_rule(block, size, device)
    assert torch.equal(accepted.to(torch.int64), verdict.num_accepted)
    assert torch.equal(tokens.to(torch.int64), verdict.emitted)
