"""A function that verifies draft trees given by a mask, one request after another."""

import torch


def verify(candidates: torch.Tensor, tree_mask: torch.Tensor, target_probs: torch.Tensor):
    """Sample the target after each accepted node; go on while a child has the sampled token."""
    depth = tree_mask.sum(-1)  # the ancestors of a node, and itself
    output_ids = torch.full_like(candidates, -1)
    num_accepted = torch.zeros(len(candidates), dtype=torch.int64)
    for request in range(len(candidates)):
        node = 0
        while True:
            token = torch.multinomial(target_probs[request, node], 1)
            output_ids[request, num_accepted[request]] = token
            is_child = tree_mask[request, :, node] & (depth[request] == depth[request, node] + 1)
            accepted = is_child & (candidates[request] == token)
            if not accepted.any():
                break
            node = int(accepted.int().argmax())
            num_accepted[request] += 1
    return output_ids, num_accepted
