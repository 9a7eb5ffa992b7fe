"""The signatures of SGLang's tree and chain verification, around loops of our own."""

import torch


def tree_speculative_sampling_target_only(
    predicts: torch.Tensor,  # mutable
    accept_index: torch.Tensor,  # mutable
    accept_token_num: torch.Tensor,  # mutable
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Walk down each tree: a child is accepted with the target's probability of its token."""
    batch = torch.arange(len(candidates))
    place, count = torch.zeros((2, len(batch)), dtype=torch.int64)
    child, reached = retrive_next_token[batch, place], torch.zeros(len(batch), dtype=target_probs.dtype)
    accept_index[:, 0] = retrive_index[:, 0]
    for _ in range(candidates.shape[1] - 1):
        exists, there = child >= 0, child.clamp(min=0)
        token = candidates[batch, there]
        probability = target_probs[batch, place, token]
        reached = reached + probability
        accepts = exists & (uniform_samples[batch, place] < reached / threshold_acc)
        rejected = draft_probs[batch, place, token]
        draft_probs[batch, place, token] = torch.where(exists & ~accepts, probability, rejected)
        slot = retrive_index[batch, place]
        predicts[slot] = torch.where(accepts, token.to(predicts.dtype), predicts[slot])
        place, count = torch.where(accepts, child, place), count + accepts
        accept_index[batch, count] = retrive_index[batch, place].to(accept_index.dtype)
        after = torch.where(accepts, retrive_next_token[batch, there], retrive_next_sibling[batch, there])
        child, reached = torch.where(exists, after, child), torch.where(accepts, 0.0, reached)
    accept_token_num.copy_(count)
    edges = (target_probs[batch, place] - draft_probs[batch, place]).clamp(min=0).cumsum(-1)
    last = (edges <= uniform_samples_for_final_sampling[:, None] * edges[:, -1:]).sum(-1)
    predicts[retrive_index[batch, place]] = last.to(predicts.dtype)


def chain_speculative_sampling(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float,
    threshold_acc: float,
    deterministic: bool = True,
) -> None:
    """Verify the chain of each request by the token rule; the links of the tree are not read."""
    batch, width = candidates.shape
    ids = candidates[:, 1:, None]
    target_of, draft_of = target_probs[:, :-1].gather(-1, ids), draft_probs.gather(-1, ids)
    accepts = (uniform_samples[:, :-1, None] * draft_of < target_of)[..., 0]
    count = accepts.cumprod(dim=1).sum(dim=1)
    is_kept = torch.arange(width) <= count[:, None]
    accept_index.copy_(torch.where(is_kept, retrieve_index, -1))
    accept_token_num.copy_(count)
    residual = torch.cat([(target_probs[:, :-1] - draft_probs).clamp(min=0), target_probs[:, -1:]], dim=1)
    edges = residual[torch.arange(batch), count].cumsum(dim=-1)
    last = (edges <= uniform_samples_for_final_sampling[:, None] * edges[:, -1:]).sum(dim=-1)
    tokens = torch.cat([candidates[:, 1:], candidates[:, :1]], dim=1)
    tokens[torch.arange(batch), count] = last
    predicts[retrieve_index.reshape(-1)] = tokens.reshape(-1).to(predicts.dtype)
