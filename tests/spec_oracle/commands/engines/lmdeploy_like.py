"""The signatures of lmdeploy's rejection sampling, around a token rule of our own."""

import torch
from torch import LongTensor, Tensor


class RejectionSampling:
    """The portable backend."""

    def forward(
        self,
        target_logits: Tensor,
        draft_token_ids: LongTensor,
        bonus_token_ids: LongTensor,
        is_greedy: Tensor | None = None,
        draft_probs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Verify the drafts of a batch.

        Args:
            target_logits (Tensor): The logits of the target, in shape [batch_size, num_spec_tokens,
                vocab_size].
            draft_token_ids (LongTensor): The drafted tokens in shape [batch_size, num_spec_tokens].
            bonus_token_ids (LongTensor): The tokens after whole drafts, in shape [batch_size].
            is_greedy (Tensor): [batch_size], None where no request is greedy.
            draft_probs (Tensor): [batch_size, num_spec_tokens, vocab_size].
        """
        batch, length = draft_token_ids.shape
        target = target_logits.softmax(dim=-1)
        if draft_probs is None:
            draft_probs = torch.nn.functional.one_hot(draft_token_ids, target.shape[-1]).to(target.dtype)
        ids, likeliest = draft_token_ids[..., None], target.argmax(dim=-1)
        drafted = draft_probs.gather(-1, ids)[..., 0]
        accepts = torch.rand(batch, length) * drafted < target.gather(-1, ids)[..., 0]
        noise = torch.empty(batch, 1, target.shape[-1]).exponential_()
        corrected = ((target - draft_probs).clamp(min=0) / noise).argmax(dim=-1)
        if is_greedy is not None:
            accepts = torch.where(is_greedy[:, None], draft_token_ids == likeliest, accepts)
            corrected = torch.where(is_greedy[:, None], likeliest, corrected)
        count = accepts.cumprod(dim=1).sum(dim=1)
        next_tokens = torch.cat([corrected, bonus_token_ids[:, None]], dim=1)
        last_token_ids = next_tokens.gather(1, count[:, None])[:, 0]
        place = torch.arange(length + 1)
        drafted = torch.nn.functional.pad(draft_token_ids, (0, 1))
        output_token_ids = torch.where(place < count[:, None], drafted, -1)
        output_token_ids = torch.where(place == count[:, None], last_token_ids[:, None], output_token_ids)
        num_rejected_tokens = length - count
        return output_token_ids, num_rejected_tokens, last_token_ids


class RejectionSampler:
    """The layer above it, which asks an object for the rows of the bonus tokens."""

    def forward(self, target_logits: Tensor, draft_token_ids: LongTensor, expanded_sampling_inputs):
        """Verify the drafts of a batch; the rows of the bonus tokens are the last of ``target_logits``."""
        if expanded_sampling_inputs.max_top_k == 1:
            return target_logits.argmax(dim=-1)
        inputs = expanded_sampling_inputs.select_sampling_rows(slice(-1, None))
        return RejectionSampling().forward(target_logits[:, :-1], draft_token_ids, inputs.sample())
