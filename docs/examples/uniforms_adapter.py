"""A kernel that takes its uniforms as an argument, and writes into buffers, under the sampler contract."""

import torch
from uniforms_engine import chain_speculative_sampling

from spec_oracle.contracts.adapting import from_accepted


def verify(draft_tokens, draft_probs, target_probs, uniforms):
    """Keep the contract: the name of the fourth parameter asks for uniforms [B, L+1]."""
    num_accepted = torch.zeros(len(draft_tokens), dtype=torch.int64)
    predicts = torch.zeros(len(draft_tokens), dtype=torch.int64)
    chain_speculative_sampling(
        num_accepted=num_accepted,
        predicts=predicts,
        candidates=torch.nn.functional.pad(draft_tokens, (1, 0)),
        uniform_samples=uniforms[:, :-1],
        uniform_samples_for_final_sampling=uniforms[:, -1],
        target_probs=target_probs,
        draft_probs=draft_probs,
    )
    return from_accepted(draft_tokens, num_accepted, predicts)
