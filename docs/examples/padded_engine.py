"""Token verification on padded logits [B, L, V]; it samples all tokens itself, and masks none."""

import torch


def verify_drafts(
    draft_ids: torch.Tensor,  # [batch, length]
    draft_logits: torch.Tensor,  # [batch, length, vocab]
    target_logits: torch.Tensor,  # [batch, length + 1, vocab]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output ids [batch, length + 1], and how many drafted ones [batch] were accepted."""
    draft, target = draft_logits.softmax(dim=-1), target_logits.softmax(dim=-1)
    ids = draft_ids[..., None]
    ratio = target[:, :-1].gather(-1, ids)[..., 0] / draft.gather(-1, ids)[..., 0]
    num_accepted = (torch.rand(draft_ids.shape) < ratio).cumprod(dim=1).sum(dim=1)

    residual = (target[:, :-1] - draft).clamp(min=0)
    weights = torch.cat([residual, target[:, -1:]], dim=1)
    row = torch.arange(len(draft_ids))
    next_id = torch.multinomial(weights[row, num_accepted], num_samples=1).to(draft_ids)
    output = torch.nn.functional.pad(draft_ids, (0, 1)).scatter(1, num_accepted[:, None], next_id)
    return output, num_accepted
