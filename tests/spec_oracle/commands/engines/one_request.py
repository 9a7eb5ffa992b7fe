"""Verification of one request at a time, [L], [L, V], [L+1, V], as tutorials write it."""

import numpy as np
import torch


def verify_draft(
    draft_tokens: torch.Tensor,  # [L]
    draft_probs: torch.Tensor,  # [L, V]
    target_probs: torch.Tensor,  # [L + 1, V]
    temperature: float,
    generator: torch.Generator,
):
    """Return how many tokens are accepted, and the next one."""
    num_accepted = 0
    for i, token in enumerate(draft_tokens):
        if torch.rand((), generator=generator) * draft_probs[i, token] >= target_probs[i, token]:
            break
        num_accepted += 1
    row = target_probs[num_accepted] ** (1 / temperature)
    if num_accepted < len(draft_tokens):
        row = (row - draft_probs[num_accepted]).clamp(min=0)
    next_token = torch.multinomial(row, num_samples=1, generator=generator)[0]
    return num_accepted, next_token


def speculative_step(x, q, p, rng):
    """Return the emitted tokens of one request; arrays of numpy, as the code shows."""
    emitted = []
    for i in range(len(x)):
        token = x[i]
        if rng.random() * q[i][token] >= p[i][token]:
            rest = np.maximum(p[i] - q[i], 0)
            return [*emitted, rng.choice(len(rest), p=rest / rest.sum())]
        emitted.append(token)
    return [*emitted, rng.choice(p.shape[-1], p=p[-1])]


def accept(draft_ids: list[int], draft_logits, target_logits: torch.Tensor):
    """Return the accepted tokens, and the next one."""
    q, p = draft_logits.softmax(-1), target_logits.softmax(-1)
    accepted_ids = []
    for place, drafted in enumerate(draft_ids):
        if torch.rand(()) * q[place, drafted] >= p[place, drafted]:
            rest = (p[place] - q[place]).clamp(min=0)
            return accepted_ids, torch.multinomial(rest, 1).item()
        accepted_ids.append(drafted)
    next_id = torch.multinomial(p[-1], 1).item()
    return accepted_ids, next_id


def assisted(
    candidate_input_ids: torch.Tensor,  # [1, L]
    candidate_logits: torch.Tensor,  # [1, L, V]
    new_logits: torch.Tensor,  # [1, L + 1, V]
):
    """Return the emitted tokens of a batch of one, and how many drafts are accepted."""
    q, p = candidate_logits.softmax(-1), new_logits.softmax(-1)
    n_matches = 0
    for x in candidate_input_ids[0]:
        if torch.rand((), dtype=p.dtype) * q[0, n_matches, x] >= p[0, n_matches, x]:
            break
        n_matches += 1
    p_next = p[:, n_matches]
    if n_matches < candidate_input_ids.shape[1]:
        p_next = (p_next - q[:, n_matches]).clamp(min=0)
    sampled = torch.multinomial(p_next, num_samples=1)
    valid_tokens = torch.cat([candidate_input_ids[:, :n_matches], sampled], dim=-1)
    return valid_tokens, n_matches
