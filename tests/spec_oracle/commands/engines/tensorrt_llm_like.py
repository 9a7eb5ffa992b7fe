"""The signatures of TensorRT-LLM's rejection sampling: of a batch, and of one request in two functions."""

import torch


def rejection_sampling_one_model(
    draft_probs: torch.Tensor,
    draft_token_ids: torch.Tensor,
    target_probs: torch.Tensor,
    deterministic: bool = True,
    seed: int | None = None,
    offset: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Verify by the token rule."""
    ids = draft_token_ids[..., None]
    ratio = (target_probs[:, :-1].gather(-1, ids) / draft_probs.gather(-1, ids))[..., 0]
    accepts = torch.rand(draft_token_ids.shape) < ratio
    output_emitted_draft_token_num = accepts.cumprod(dim=1).sum(dim=1)
    residual = torch.cat([(target_probs[:, :-1] - draft_probs).clamp(min=0), target_probs[:, -1:]], dim=1)
    rows = residual[torch.arange(len(residual)), output_emitted_draft_token_num]
    last = torch.multinomial(rows, num_samples=1)
    accepted_tokens = torch.nn.functional.pad(draft_token_ids, (0, 1), value=-1)
    accepted_tokens = accepted_tokens.scatter(1, output_emitted_draft_token_num[:, None], last)
    return accepted_tokens, output_emitted_draft_token_num + 1


def get_rejected_indices(
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    generator: torch.Generator,
    draft_tokens: list[int],
) -> torch.Tensor:
    """Return the places of one request whose tokens are not accepted."""
    place = torch.arange(len(draft_tokens))
    ids = torch.tensor(draft_tokens)
    ratio = target_probs[place, ids] / draft_probs[place, ids]
    rejected_indices = (torch.rand(len(place), generator=generator) > ratio).nonzero()
    return rejected_indices


def sample_rejected(
    draft_probs: torch.Tensor, target_probs: torch.Tensor, generator: torch.Generator, num_accepted: int
) -> int:
    """Return the token after the accepted ones."""
    residual = (target_probs[num_accepted] - draft_probs[num_accepted]).clamp(min=0)
    return int(torch.multinomial(residual, num_samples=1, generator=generator))
