"""A torch verifier of requests laid end to end, with loops over requests in Python and their own generators.

Engines call their samplers so: tokens and rows of all requests one after the other, cumulative lengths, a
generator for each request that asks for a seed. The wrapper lays the batch of the contract end to end.
"""

from collections.abc import Mapping
from typing import Any

import torch

from lab.specimens.foreign.rows import Array
from lab.specimens.specimen import itself, specimen


def rejection_sample(  # noqa: PLR0917  # as engines call it
    draft_tokens: Array,
    cu_num_draft_tokens: Array,
    draft_probs: Array,
    target_probs: Array,
    bonus_probs: Array,
    greedy: Array,
    generator: Any,
    generators: Mapping[int, Any],
) -> list[list[int]]:
    """Return the tokens that each request emits; drafts [N], ends [B], rows [N, V], bonus rows [B, V]."""
    emitted, start = [], 0
    for request, end in enumerate(cu_num_draft_tokens.tolist()):
        own, text = generators.get(request, generator), list[int]()
        for at in range(start, end):
            token = int(draft_tokens[at])
            if greedy[request]:
                text.append(int(target_probs[at].argmax()))
                if text[-1] != token:
                    break
                continue
            p, q = target_probs[at, token], draft_probs[at, token]
            if torch.rand((), generator=own, dtype=torch.float64) * q < p:
                text.append(token)
                continue
            residual = (target_probs[at] - draft_probs[at]).clamp(min=0)
            residual = residual if residual.sum() > 0 else target_probs[at]
            text.append(int(torch.multinomial(residual, 1, generator=own)))
            break
        else:
            row = bonus_probs[request]
            drawn = row.argmax() if greedy[request] else torch.multinomial(row, 1, generator=own)
            text.append(int(drawn))
        emitted.append(text)
        start = end
    return emitted


@specimen("control", declared="token", function=itself, array="torch")
def flat_requests_one_by_one(  # noqa: PLR0917  # the sampler contract, and its optional parameters
    x: Array,
    q: Array,
    p: Array,
    generator: Any,
    draft_lengths: Array = None,
    is_greedy: Array = None,
    generators: Mapping[int, Any] | None = None,
) -> tuple[Array, Array]:
    """Requests end to end, verified one by one in Python, with a generator for each that has its own."""
    batch, length = x.shape
    lengths = torch.full((batch,), length) if draft_lengths is None else draft_lengths.long()
    greedy = torch.zeros(batch, dtype=torch.bool) if is_greedy is None else is_greedy
    is_drafted = torch.arange(length) < lengths[:, None]
    emitted = rejection_sample(
        x[is_drafted],
        lengths.cumsum(0),
        q[is_drafted],
        p[:, :-1][is_drafted],
        p[torch.arange(batch), lengths],
        greedy,
        generator,
        generators or {},
    )
    tokens = torch.full((batch, length + 1), -1)
    for request, text in enumerate(emitted):
        tokens[request, : len(text)] = torch.tensor(text)
    return tokens, torch.tensor([len(text) - 1 for text in emitted])
