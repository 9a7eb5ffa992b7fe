"""Code with lines that wait: for a number of calls, a size, an input that nobody tries."""

import numpy as np

import verifiers
from spec_oracle.contracts import as_sampler

TOKEN = as_sampler(verifiers.get("token"))


def for_a_size(draft_tokens, draft_probs, target_probs, generator):
    """Lossless, unless V is that of GPT-2."""
    if target_probs.shape[-1] == 50_257:
        draft_probs = np.roll(
            draft_probs,
            1,
            axis=-1,
        )
        draft_probs *= 1
    return TOKEN(draft_tokens, draft_probs, target_probs, generator)


def for_nothing(draft_tokens, draft_probs, target_probs, generator):
    """Lossless; it refuses what no contract allows, and clears up."""
    if draft_tokens.ndim != 2:
        raise ValueError("expected two axes")

    kept = draft_probs.copy()

    def verified():
        return TOKEN(draft_tokens, draft_probs, target_probs, generator)

    def unused():
        return None

    try:
        found = verified()
    finally:
        draft_probs[...] = kept
    return found
