"""Requests laid end to end, with cumulative lengths: how vLLM V1's sampler and its relatives are called.

    batch = flat(draft_tokens, draft_probs, target_probs, draft_lengths)
    with drawing_from(generator):
        output = my_sampler(batch.tokens, batch.ends, batch.target_probs, batch.sample_bonus())
    return batch.from_padded(output)

`FlatBatch` has the other forms that such samplers take.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import PADDING, Emission, Generator, Tensor


@dataclass(frozen=True)
class FlatBatch:
    """B requests with N drafted tokens in all, one request after the other.

    ``tokens`` int64 [N]; ``draft_probs`` and ``target_probs`` [N, V], the distributions at the drafted
    tokens; ``bonus_probs`` [B, V], the target after each whole draft; ``all_target_probs`` [N + B, V], the
    target rows of each request and its bonus row; ``lengths`` int64 [B]; ``is_greedy`` bool [B]; ``width`` is
    L + 1; ``own`` are the generators of the requests that have one, by their number. Rows have the dtype that
    the adapter got.
    """

    tokens: Tensor
    draft_probs: Tensor
    target_probs: Tensor
    bonus_probs: Tensor
    all_target_probs: Tensor
    lengths: Tensor
    is_greedy: Tensor
    width: int
    own: Mapping[int, torch.Generator] | None = None

    @property
    def ends(self) -> Tensor:
        """Cumulative lengths int32 [B]: where each request ends, as vLLM's ``cu_num_draft_tokens``."""
        return self.lengths.cumsum(0).to(torch.int32)

    @property
    def offsets(self) -> Tensor:
        """Cumulative lengths int32 [B + 1] that begin with 0, as the ``cu_seqlens`` of attention kernels."""
        return torch.nn.functional.pad(self.ends, (1, 0))

    @property
    def target_indices(self) -> Tensor:
        """Where the rows of drafted tokens lie in ``all_target_probs``, int64 [N]."""
        request = torch.arange(len(self.lengths)).repeat_interleave(self.lengths)
        return torch.arange(len(self.tokens)) + request

    @property
    def bonus_indices(self) -> Tensor:
        """Where the rows of bonus tokens lie in ``all_target_probs``, int64 [B]."""
        return self.lengths.cumsum(0) + torch.arange(len(self.lengths))

    @property
    def max_length(self) -> int:
        """The longest draft, in tokens."""
        return int(self.lengths.max())

    def sample_bonus(self) -> Tensor:
        """Sample the bonus tokens int64 [B, 1], for samplers that take these from their caller.

        Those of requests in ``own`` come from their generators, as from the engine's own sampler.
        """
        if not self.own:
            return contract.sample_bonus(self.bonus_probs, self.is_greedy if self.is_greedy.any() else None)
        tokens, rows = self.bonus_probs.argmax(dim=1, keepdim=True), self.bonus_probs.unbind()
        is_greedy = self.is_greedy.tolist()
        others = [request for request, greedy in enumerate(is_greedy) if not (greedy or request in self.own)]
        if others:
            tokens[others] = torch.multinomial(self.bonus_probs[others], num_samples=1)
        for request, generator in self.own.items():
            if not is_greedy[request]:
                tokens[request] = torch.multinomial(rows[request], num_samples=1, generator=generator)
        return tokens

    def generators(self, generator: Generator) -> dict[int, Generator]:
        """Return ``own`` where that is given, else one for each request, seeded anew from ``generator``."""
        if self.own is not None:
            return {**self.own}
        seeds = contract.fresh_seeds(generator, len(self.lengths))
        return {request: torch.Generator().manual_seed(seed) for request, seed in enumerate(seeds)}

    def from_padded(self, output: Tensor) -> Emission:
        """Return ``output`` [B, up to L+1], negative after the last emitted token, as the contract asks."""
        return contract.from_padded(self._widened(output))

    def from_lengths(self, output: Tensor, num_accepted: Tensor) -> Emission:
        """Return ``output`` [B, up to L+1], of which ``num_accepted`` [B] and one more count."""
        return contract.from_lengths(self._widened(output), num_accepted)

    def _widened(self, output: Tensor) -> Tensor:
        return torch.nn.functional.pad(output, (0, self.width - output.shape[1]), value=PADDING)


def flat(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    draft_lengths: Tensor | None = None,
    is_greedy: Tensor | None = None,
    *,
    generators: Mapping[int, torch.Generator] | None = None,
) -> FlatBatch:
    """Lay a batch of the sampler contract end to end: [B, L], [B, L, V], [B, L+1, V].

    Request b has the first ``draft_lengths[b]`` of its drafted tokens, all L by default; no request is greedy
    by default. ``generators`` are those of the requests that draw from their own.
    """
    batch, length = draft_tokens.shape
    lengths = torch.full((batch,), length) if draft_lengths is None else draft_lengths
    position = torch.arange(length + 1)
    is_drafted, is_read = position[:-1] < lengths[:, None], position <= lengths[:, None]
    return FlatBatch(
        draft_tokens[is_drafted],
        draft_probs[is_drafted],
        target_probs[:, :-1][is_drafted],
        target_probs[torch.arange(batch), lengths],
        target_probs[is_read],
        lengths,
        torch.zeros(batch, dtype=torch.bool) if is_greedy is None else is_greedy,
        length + 1,
        generators,
    )
