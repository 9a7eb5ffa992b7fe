"""The calling convention of vLLM's second-generation sampler, which its hardware plug-ins share."""

from collections.abc import Callable
from types import SimpleNamespace

import torch

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify
from spec_oracle.contracts.flat import flat


def flat_verify(
    rejection_sample: Callable[..., Emission],
    target_argument: Callable[[Tensor], Tensor],
    *,
    reads_draft: bool,
    greedy_temperature: float = 0.0,
) -> Verify:
    """Return the sampler contract around ``rejection_sample``.

    Ids are int32, rows float32; draft rows None when the engine is not to read them, as with n-gram drafts,
    target rows passed through ``target_argument``. Requests may have fewer drafts than L (``draft_lengths``
    int [B]) and be decoded greedily (``is_greedy`` bool [B]), which the engine knows by
    ``greedy_temperature``.
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
        batch = flat(tokens, draft, target, draft_lengths, is_greedy)
        metadata = SimpleNamespace(
            all_greedy=False,
            all_random=not bool(batch.is_greedy.any()),
            temperature=torch.where(batch.is_greedy, greedy_temperature, 1.0),
            generators={},
        )
        with contract.drawing_from(generator):
            output = rejection_sample(
                batch.tokens.to(torch.int32),
                batch.lengths.tolist(),
                batch.max_length,
                batch.ends,
                batch.draft_probs.to(torch.float32).contiguous() if reads_draft else None,
                target_argument(batch.target_probs.to(torch.float32)).contiguous(),
                batch.sample_bonus().to(torch.int32),
                metadata,
            )
        return batch.from_padded(output)

    return verify
