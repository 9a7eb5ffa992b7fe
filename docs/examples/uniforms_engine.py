"""Token verification of one chain a request, its uniforms handed in: the interface of a GPU kernel."""

import torch


def chain_speculative_sampling(
    num_accepted: torch.Tensor,  # [batch], written: how many drafted tokens were accepted
    predicts: torch.Tensor,  # [batch], written: the token after these
    candidates: torch.Tensor,  # [batch, 1 + length]: the token before the draft, then the draft
    uniform_samples: torch.Tensor,  # [batch, length]
    uniform_samples_for_final_sampling: torch.Tensor,  # [batch]
    target_probs: torch.Tensor,  # [batch, length + 1, vocab]
    draft_probs: torch.Tensor,  # [batch, length, vocab]
) -> None:
    """Accept drafted tokens by their uniforms, then invert the cumulative distribution of the next one."""
    ids = candidates[:, 1:, None]
    target_of, draft_of = target_probs[:, :-1].gather(-1, ids), draft_probs.gather(-1, ids)
    accepts = uniform_samples[..., None] * draft_of < target_of
    num_accepted.copy_(accepts[..., 0].cumprod(dim=1).sum(dim=1))

    residual = (target_probs[:, :-1] - draft_probs).clamp(min=0)
    weights = torch.cat([residual, target_probs[:, -1:]], dim=1)[torch.arange(len(ids)), num_accepted]
    edges = weights.cumsum(dim=-1)
    threshold = uniform_samples_for_final_sampling[:, None] * edges[:, -1:]
    predicts.copy_((edges <= threshold).sum(dim=-1))
