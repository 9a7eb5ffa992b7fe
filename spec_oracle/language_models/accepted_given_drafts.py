"""The expected accepted length given the drafts: enumerated decisions, not drawn ones."""

from typing import Any

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.exact import ScriptedDecisions, enumerate_branches
from spec_oracle.exact.arithmetic import Arithmetic
from spec_oracle.exact.call import BATCH_BYTES, call_verifier
from verifiers import AnyVerifier, Drafts, Paths, State, Verdict

Tensor = Any


def accepted_given_drafts(verifier: AnyVerifier, drafts: Paths, state: State) -> Floats:
    """Return E[tau | drafts], float [B], over the verifier's own decisions; arrays are torch tensors.

    The block efficiency is its mean over drafts plus one. Tokens that no row of a request gives mass are
    taken out first, so the cost grows with what top-k and top-p leave, not with the vocabulary.
    """
    import torch

    small, _ = without_unused_tokens(drafts)
    device, trees = drafts.tokens.device, Drafts.of_paths(*small.arrays)

    def run(rows: Integers, decisions: ScriptedDecisions) -> Verdict:
        index = torch.as_tensor(rows, device=device)
        kept = tuple(array[index] for array in state)
        verdict, _ = call_verifier(verifier, trees.take(index), decisions, kept)
        return verdict

    arithmetic = Arithmetic(
        from_numpy=lambda values: torch.as_tensor(values, device=device),
        to_numpy=lambda values: np.asarray(values.cpu().numpy()),
    )
    expected = np.zeros(drafts.batch)
    row_bytes = 8 * drafts.num_paths * (2 * drafts.draft_length + 1) * small.vocab_size
    max_rows = max(16, BATCH_BYTES // row_bytes)
    for branches in enumerate_branches(run, np.ones(drafts.batch), max_rows=max_rows, arithmetic=arithmetic):
        tau = arithmetic.to_numpy(branches.result.num_accepted)
        np.add.at(expected, branches.rows, branches.weight * tau)
    return expected


def without_unused_tokens(drafts: Paths) -> tuple[Paths, Tensor]:
    """Return the drafts over the tokens that have mass in some row of the request, in unchanged order.

    The second result, int [B, V'], holds the tokens' numbers in the vocabulary. A verifier never emits the
    others, so its law of the rest is the same. Requests with fewer such tokens than the request with the most
    keep some without mass; where that one uses more than half of the vocabulary, all tokens are kept.
    """
    used = (drafts.draft_probs > 0).any(dim=1).any(dim=1) | (drafts.target_probs > 0).any(dim=1).any(dim=1)
    most = int(used.sum(dim=1).max())
    if 2 * most > used.shape[1]:  # nothing to gain: copies of the rows cost more than the other tokens
        every = used.new_ones(used.shape, dtype=int).cumsum(dim=1) - 1
        return drafts, every
    kept = (~used).to(int).argsort(dim=1, stable=True)[:, :most].sort(dim=1).values
    rank = used.new_zeros(used.shape, dtype=int).scatter(1, kept, kept.new_ones(kept.shape).cumsum(dim=1) - 1)
    batch, paths, length = drafts.tokens.shape

    def gathered(rows: Tensor) -> Tensor:
        index = kept[:, None, None, :].expand(batch, paths, rows.shape[2], kept.shape[1])
        return rows.gather(-1, index)

    tokens = rank.gather(1, drafts.tokens.reshape(batch, -1)).reshape(batch, paths, length)
    return Paths(tokens, gathered(drafts.draft_probs), gathered(drafts.target_probs)), kept
