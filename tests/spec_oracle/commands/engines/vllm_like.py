"""The signatures of vLLM V1's rejection sampler, old and new, around a token rule of our own."""

from dataclasses import dataclass

import torch

PLACEHOLDER = -1


@dataclass
class SpecDecodeMetadata:
    """What is known of a batch of drafts."""

    draft_token_ids: torch.Tensor
    num_draft_tokens: list[int]
    cu_num_draft_tokens: torch.Tensor
    target_logits_indices: torch.Tensor
    bonus_logits_indices: torch.Tensor
    max_spec_len: int


@dataclass
class SamplerOutput:
    """What the new sampler returns."""

    sampled_token_ids: torch.Tensor
    logprobs_tensors: object


class RejectionSampler(torch.nn.Module):
    """The new form: one array of logits, and a sampler for the bonus token."""

    def __init__(self, sampler):
        super().__init__()
        self.sampler = sampler

    def forward(
        self,
        metadata: SpecDecodeMetadata,
        # [num_tokens, vocab_size]
        draft_probs: torch.Tensor | None,
        # [num_tokens + batch_size, vocab_size]
        logits: torch.Tensor,
        sampling_metadata,
    ) -> SamplerOutput:
        """Verify the drafts of a batch."""
        bonus_logits = logits[metadata.bonus_logits_indices]
        bonus_token_ids = self.sampler(logits=bonus_logits, sampling_metadata=sampling_metadata)
        target_logits = logits[metadata.target_logits_indices]
        output_token_ids = rejection_sample(
            metadata.draft_token_ids,
            metadata.num_draft_tokens,
            metadata.max_spec_len,
            metadata.cu_num_draft_tokens,
            draft_probs,
            target_logits,
            bonus_token_ids,
            sampling_metadata,
        )
        return SamplerOutput(sampled_token_ids=output_token_ids, logprobs_tensors=None)


class OldRejectionSampler(torch.nn.Module):
    """The old form: rows and bonus tokens apart."""

    def forward(
        self,
        metadata: SpecDecodeMetadata,
        draft_probs: torch.Tensor | None,
        target_logits: torch.Tensor,
        bonus_token_ids: torch.Tensor,
        sampling_metadata,
    ) -> torch.Tensor:
        """Verify the drafts of a batch.

        Args:
            metadata: draft tokens and their numbers.
            draft_probs (Optional[torch.Tensor]): the draft's rows, None for n-gram drafts. Shape is
                [num_tokens, vocab_size].
            target_logits (torch.Tensor): shape is [num_tokens, vocab_size].
            bonus_token_ids (torch.Tensor): shape is [batch_size, 1].
            sampling_metadata: temperatures and generators.
        """
        return rejection_sample(
            metadata.draft_token_ids,
            metadata.num_draft_tokens,
            metadata.max_spec_len,
            metadata.cu_num_draft_tokens,
            draft_probs,
            target_logits,
            bonus_token_ids,
            sampling_metadata,
        )


def rejection_sample(
    # [num_tokens]
    draft_token_ids: torch.Tensor,
    # [batch_size]
    num_draft_tokens: list[int],
    max_spec_len: int,
    # [batch_size]
    cu_num_draft_tokens: torch.Tensor,
    # [num_tokens, vocab_size]
    draft_probs: torch.Tensor | None,
    # [num_tokens, vocab_size]
    target_logits: torch.Tensor,
    # [batch_size, 1]
    bonus_token_ids: torch.Tensor,
    sampling_metadata,
) -> torch.Tensor:
    """Return the output tokens [batch_size, max_spec_len + 1], placeholders after the last one."""
    lengths = torch.tensor(num_draft_tokens)
    request = torch.arange(len(lengths)).repeat_interleave(lengths)
    token, position = torch.arange(len(draft_token_ids)), _positions(cu_num_draft_tokens, lengths)
    is_greedy = torch.zeros(len(lengths), dtype=torch.bool)
    if not sampling_metadata.all_random:
        is_greedy = sampling_metadata.temperature == 0
    target = target_logits.softmax(dim=-1)
    if draft_probs is None:
        draft_probs = torch.nn.functional.one_hot(draft_token_ids, target.shape[-1])
    uniform, noise = torch.rand(len(token)), torch.empty(len(lengths), target.shape[-1]).exponential_()
    for row, generator in sampling_metadata.generators.items():
        uniform[request == row] = torch.rand(int(lengths[row]), generator=generator)
        noise[row].exponential_(generator=generator)
    corrected = ((target - draft_probs).clamp(min=0) / noise[request]).argmax(dim=-1)
    likeliest, greedy = target.argmax(dim=-1), is_greedy[request]
    accepts = uniform * draft_probs[token, draft_token_ids] < target[token, draft_token_ids]
    accepts = torch.where(greedy, draft_token_ids == likeliest, accepts)
    output = torch.full((len(lengths), max_spec_len + 1), PLACEHOLDER)
    output[request, position] = torch.where(
        accepts, draft_token_ids, torch.where(greedy, likeliest, corrected)
    )
    output[torch.arange(len(lengths)), lengths] = bonus_token_ids[:, 0]
    is_shown = torch.ones(len(lengths), max_spec_len + 1, dtype=torch.bool)
    is_shown[request, position + 1] = accepts
    return torch.where(is_shown.cumprod(dim=1).bool(), output, PLACEHOLDER)


def _positions(ends, lengths):
    return torch.arange(int(ends[-1])) - (ends - lengths).repeat_interleave(lengths)
