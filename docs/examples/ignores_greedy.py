"""A sampler with a real bug: it takes `is_greedy`, and samples for greedy requests, too."""

import numpy as np


def verify(draft_tokens, draft_probs, target_probs, generator, is_greedy=None):  # noqa: ARG001  # the bug
    """Keep the sampler contract (docs/reference/sampler-contract.md)."""
    batch, length = draft_tokens.shape
    tokens = np.full((batch, length + 1), -1)
    num_accepted = np.zeros(batch, dtype=int)
    for b in range(batch):
        row = target_probs[b, length]
        for i, token in enumerate(draft_tokens[b]):
            if generator.random() * draft_probs[b, i, token] >= target_probs[b, i, token]:
                row = np.maximum(target_probs[b, i] - draft_probs[b, i], 0)
                break
            tokens[b, i] = token
            num_accepted[b] += 1
        tokens[b, num_accepted[b]] = generator.choice(len(row), p=row / row.sum())
    return tokens, num_accepted
