"""The calling convention of vLLM's second-generation sampler, which its hardware plug-ins share."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from spec_oracle.adapters.samplers import contract
from spec_oracle.adapters.samplers.contract import PADDING, Emission, Generator, Tensor, Verify


def flat_verify(
    rejection_sample: Callable[..., Any],
    target_argument: Callable[[Tensor], Tensor],
    *,
    reads_draft: bool,
    greedy_temperature: float = 0.0,
) -> Verify:
    """Return the sampler contract around ``rejection_sample``.

    Requests are laid end to end, all rows float32: drafts int32 [B L], draft rows [B L, V] (None when the
    engine is not to read them, as with n-gram drafts), target rows [B L, V] passed through
    ``target_argument``, bonus int32 [B, 1]. Requests may have fewer drafts than L (``draft_lengths`` int [B])
    and be decoded greedily (``is_greedy`` bool [B]), which the engine knows by ``greedy_temperature``.
    """

    def verify(
        tokens: Tensor,
        draft: Tensor,
        target: Tensor,
        generator: Generator = None,
        *,
        draft_lengths: Tensor | None = None,
        is_greedy: Tensor | None = None,
    ) -> Emission:
        batch, length = tokens.shape
        lengths = torch.full((batch,), length) if draft_lengths is None else draft_lengths
        greedy = torch.zeros(batch, dtype=torch.bool) if is_greedy is None else is_greedy
        drafted = torch.arange(length) < lengths[:, None]
        last_rows = target[torch.arange(batch), lengths]
        metadata = SimpleNamespace(
            all_greedy=False,
            all_random=not bool(greedy.any()),
            temperature=torch.where(greedy, greedy_temperature, 1.0),
            generators={},
        )
        with contract.drawing_from(generator):
            output = rejection_sample(
                tokens[drafted].to(torch.int32),
                lengths.tolist(),
                int(lengths.max()),
                lengths.cumsum(0).to(torch.int32),
                draft[drafted].to(torch.float32).contiguous() if reads_draft else None,
                target_argument(target[:, :-1][drafted].to(torch.float32)).contiguous(),
                contract.draw_bonus(last_rows, is_greedy).to(torch.int32),
                metadata,
            )
        return contract.counted(
            torch.nn.functional.pad(output, (0, length + 1 - output.shape[1]), value=PADDING)
        )

    return verify
