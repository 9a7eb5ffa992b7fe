"""The calling convention of vLLM's second-generation sampler, which its hardware plug-ins share."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from spec_oracle.engines.contract import (
    Emission,
    Generator,
    Tensor,
    Verify,
    counted,
    draw_bonus,
    drawing_from,
)


def flat_verify(
    rejection_sample: Callable[..., Any], target_argument: Callable[[Tensor], Tensor], *, reads_draft: bool
) -> Verify:
    """Return the plain contract around ``rejection_sample``.

    Requests are laid end to end, all rows float32: drafts int32 [B L], draft rows [B L, V] (None when the
    engine is not to read them, as with n-gram drafts), target rows [B L, V] passed through
    ``target_argument``, bonus int32 [B, 1].
    """

    def verify(tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None) -> Emission:
        batch, length, vocab = draft.shape
        metadata = SimpleNamespace(
            all_greedy=False, all_random=True, temperature=torch.ones(batch), generators={}
        )
        with drawing_from(generator):
            output = rejection_sample(
                tokens.to(torch.int32).reshape(-1),
                [length] * batch,
                length,
                torch.arange(1, batch + 1, dtype=torch.int32) * length,
                draft.to(torch.float32).reshape(-1, vocab).contiguous() if reads_draft else None,
                target_argument(target[:, :-1].to(torch.float32).reshape(-1, vocab)).contiguous(),
                draw_bonus(target).to(torch.int32),
                metadata,
            )
        return counted(output)

    return verify
