"""A sampler of padded logits under the sampler contract."""

from padded_engine import verify_drafts

from spec_oracle.contracts.adapting import drawing_from, from_lengths, logits_of


def verify(draft_tokens, draft_probs, target_probs, generator):
    """Keep the contract: logits in, and placeholders after the last emitted token."""
    with drawing_from(generator):
        output, num_accepted = verify_drafts(
            draft_ids=draft_tokens,
            draft_logits=logits_of(draft_probs),
            target_logits=logits_of(target_probs),
        )
    return from_lengths(output, num_accepted)
