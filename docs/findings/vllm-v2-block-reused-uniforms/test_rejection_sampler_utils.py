"""For the tests of vLLM's model runner V2: block verification over two steps of a request."""

import pytest
import torch

from vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils import rejection_sample

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on a CPU: TRITON_INTERPRET=1
NUM_DRAFT_TOKENS = 2
TARGET_PROBS = torch.tensor([0.6, 0.4])


def verify_drafts_of_token_0(seeds: torch.Tensor, start: int):
    num_reqs, slots = len(seeds), NUM_DRAFT_TOKENS + 1
    reqs = torch.arange(num_reqs, dtype=torch.int32, device=DEVICE)
    local_pos = torch.arange(slots, dtype=torch.int32, device=DEVICE).repeat(num_reqs)
    return rejection_sample(
        TARGET_PROBS.log().repeat(num_reqs * slots, 1).to(DEVICE),
        None,
        torch.zeros(num_reqs * slots, dtype=torch.int64, device=DEVICE),
        torch.arange(num_reqs + 1, dtype=torch.int32, device=DEVICE) * slots,
        local_pos.long() + start,
        reqs,
        reqs.repeat_interleave(slots),
        local_pos,
        torch.ones(num_reqs, device=DEVICE),
        seeds,
        NUM_DRAFT_TOKENS,
        use_block_verification=True,
    )


def test_block_verification_is_independent_of_the_step_before():
    torch.manual_seed(0)
    seeds = torch.randint(2**62, (300,)).to(DEVICE)
    _, num_sampled = verify_drafts_of_token_0(seeds, 0)
    rejected = seeds[num_sampled == 1]
    # the next step of the requests whose drafts were all rejected, at the next position
    sampled, _ = verify_drafts_of_token_0(rejected, 1)
    share = (sampled[:, 0] == 0).float().mean().item()
    # the standard error is 0.05; uniforms that both steps read make it 0.375
    assert share == pytest.approx(0.6, abs=0.12)
