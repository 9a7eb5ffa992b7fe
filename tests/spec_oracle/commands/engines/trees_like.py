"""Verification of draft trees as engines have it that keep parents, or the mask of a tree."""

import torch


def verify_by_parents(
    draft_token_ids: torch.Tensor,  # [batch, num_draft]
    parent_indices: torch.Tensor,  # [batch, num_draft + 1]
    draft_probs: torch.Tensor,
    target_logits: torch.Tensor,
    generator: torch.Generator,
):
    """Reject siblings, drawn without replacement, one after another."""
    found = []
    for ids, parents, draft, target in zip(
        draft_token_ids, parent_indices.tolist(), draft_probs, target_logits.softmax(-1), strict=True
    ):
        node, depth, stopped = 0, 0, False
        while not stopped:
            rows = target[node]
            q, stopped = draft[node], True
            for child in [one for one, above in enumerate(parents) if above == node]:
                token = int(ids[child - 1])
                if torch.rand((), generator=generator, dtype=rows.dtype) * q[token] < rows[token]:
                    node, depth, stopped = child, depth + 1, False
                    break
                rows = (rows - q).clamp(min=0)
                rows = rows / rows.sum().clamp(min=1e-30)
                q = q.clone()
                q[token] = 0
                q = q / q.sum().clamp(min=1e-30)
        found.append((node, torch.multinomial(rows, 1, generator=generator)))
    best_node = torch.tensor([node for node, _ in found])
    next_token = torch.cat([token for _, token in found])
    return best_node, next_token


def verify_by_mask(candidates: torch.Tensor, tree_mask: torch.Tensor, target_probs: torch.Tensor):
    """Sample the target after each accepted node; go on while a child has the token."""
    depth = tree_mask.sum(-1) - 1
    output_ids = torch.full_like(candidates, -1)
    num_accepted = torch.zeros(len(candidates), dtype=torch.int64)
    for request in range(len(candidates)):
        node = 0
        while True:
            token = torch.multinomial(target_probs[request, node], 1)
            output_ids[request, num_accepted[request]] = token
            is_child = depth == depth[request, node] + 1
            matches = is_child[request] & tree_mask[request, :, node] & (candidates[request] == token)
            if not matches.any():
                break
            node = int(matches.int().argmax())
            num_accepted[request] += 1
    return output_ids, num_accepted
