"""Token verification as vLLM V1 calls it: requests end to end, cumulative lengths, bonus from the caller."""

import torch

PLACEHOLDER = -1


def rejection_sample(
    draft_token_ids: torch.Tensor,  # [num_tokens]
    cu_num_draft_tokens: torch.Tensor,  # [batch_size]
    draft_probs: torch.Tensor | None,  # [num_tokens, vocab_size]; None for n-gram drafts
    target_logits: torch.Tensor,  # [num_tokens, vocab_size]
    bonus_token_ids: torch.Tensor,  # [batch_size, 1]
    is_greedy: torch.Tensor,  # [batch_size]
    generators: dict[int, torch.Generator],
) -> torch.Tensor:
    """Return the output tokens [batch_size, longest draft + 1], with placeholders after the last one."""
    lengths = torch.diff(cu_num_draft_tokens, prepend=torch.zeros(1, dtype=torch.int32))
    batch, longest = len(lengths), int(lengths.max())
    request = torch.arange(batch).repeat_interleave(lengths)
    token = torch.arange(len(draft_token_ids))
    position = token - (cu_num_draft_tokens - lengths)[request]

    target = target_logits.softmax(dim=-1)
    if draft_probs is None:
        draft_probs = torch.nn.functional.one_hot(draft_token_ids, target.shape[-1])
    uniform, noise = torch.rand(len(token)), torch.empty(batch, target.shape[-1]).exponential_()
    for row, generator in generators.items():
        uniform[request == row] = torch.rand(int(lengths[row]), generator=generator)
        noise[row].exponential_(generator=generator)

    # A NaN in a draft row would win the race: id 0 was let out (vllm-project/vllm#41834).
    draft_probs = draft_probs.nan_to_num()
    residual = (target - draft_probs).clamp(min=0)
    corrected = (residual / noise[request]).argmax(dim=-1)
    ratio_holds = uniform * draft_probs[token, draft_token_ids] < target[token, draft_token_ids]
    likeliest = target.argmax(dim=-1)
    accepts = torch.where(is_greedy[request], draft_token_ids == likeliest, ratio_holds)

    output = torch.full((batch, longest + 1), PLACEHOLDER)
    output[request, position] = torch.where(
        accepts, draft_token_ids, torch.where(is_greedy[request], likeliest, corrected)
    )
    output[torch.arange(batch), lengths] = bonus_token_ids[:, 0]
    all_accepted = torch.ones(batch, longest + 1, dtype=torch.bool)
    all_accepted[request, position + 1] = accepts
    return torch.where(all_accepted.cumprod(dim=1).bool(), output, PLACEHOLDER)
