"""A flat sampler, as vLLM V1's, under the sampler contract."""

from flat_engine import rejection_sample

from spec_oracle.contracts.adapting import drawing_from, logits_of
from spec_oracle.contracts.flat import flat


def verify(
    draft_tokens, draft_probs, target_probs, generator, *, draft_lengths=None, is_greedy=None, generators=None
):
    """Keep the contract: requests have their own generators, the caller samples the bonus tokens."""
    batch = flat(draft_tokens, draft_probs, target_probs, draft_lengths, is_greedy, generators=generators)
    generators = batch.generators(generator)  # {}: all requests share one
    with drawing_from(generator):
        output = rejection_sample(
            draft_token_ids=batch.tokens,
            cu_num_draft_tokens=batch.ends,
            draft_probs=batch.draft_probs,  # None: no rows, as n-gram drafters
            target_logits=logits_of(batch.target_probs),
            bonus_token_ids=batch.sample_bonus(),
            is_greedy=batch.is_greedy,
            generators=generators,
        )
    return batch.from_padded(output)
