"""A small engine's sampler: token verification, in numpy, one request after the other."""

import numpy as np


def verify(draft_tokens, draft_probs, target_probs, generator):
    """Keep the sampler contract: [B, L], [B, L, V], [B, L+1, V] -> tokens [B, L+1], num_accepted [B]."""
    require_laws(draft_probs)
    require_laws(target_probs)
    batch, length = draft_tokens.shape
    tokens = np.full((batch, length + 1), -1)
    num_accepted = np.zeros(batch, dtype=int)
    for b in range(batch):
        weights = target_probs[b, length]
        for i, token in enumerate(draft_tokens[b]):
            if generator.random() * draft_probs[b, i, token] >= target_probs[b, i, token]:
                weights = residual(target_probs[b, i], draft_probs[b, i])
                break
            tokens[b, i] = token
            num_accepted[b] += 1
        tokens[b, num_accepted[b]] = generator.choice(len(weights), p=weights / weights.sum())
    return tokens, num_accepted


def residual(target, draft):
    """Return the target less the draft, or the target itself where rounding leaves nothing of that."""
    left = np.maximum(target - draft, 0)
    return left if left.sum() > 0 else target


def require_laws(rows):
    """Refuse rows that are no probabilities."""
    if not ((rows >= 0).all() and np.allclose(rows.sum(axis=-1), 1, atol=1e-3)):
        raise ValueError("expected rows of probabilities")
