"""transformers: `transformers.generation.utils._speculative_sampling`, one request at a time."""

import torch

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify


def load(ensemble_weight: float | None) -> Verify:
    """Return the token rule of assisted generation; a weight below 1 relaxes it (lossy, as documented).

    The code takes ids [1, L], draft logits [1, L, V] and target logits [1, L+1, V], draws from the global
    stream and draws the bonus token itself.
    """
    from transformers.generation.utils import _speculative_sampling

    def one(tokens: Tensor, draft: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        emitted, matches = _speculative_sampling(
            tokens, contract.logits_of(draft), tokens.shape[1], contract.logits_of(target), ensemble_weight
        )
        return emitted[:, -1], matches.reshape(1)

    def verify(tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None) -> Emission:
        with contract.drawing_from(generator):
            rows = [one(tokens[b : b + 1], draft[b : b + 1], target[b : b + 1]) for b in range(len(tokens))]
        last, matches = (torch.cat(parts) for parts in zip(*rows, strict=True))
        return contract.from_accepted(tokens, matches, last)

    return verify
