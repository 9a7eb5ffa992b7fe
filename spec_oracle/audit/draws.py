"""Random drafts of an instance, and the text that follows an emission."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import DraftTable
from spec_oracle.toy import Instance
from verifiers import Drafting, Drafts


def checks_own_rng(seed: int) -> np.random.Generator:
    """Return the stream of a check, independent of the one with the same seed that the subject is handed.

    Sharing it would couple drafts to the subject's decisions: defect C1 of the catalogue, in the harness.
    """
    return np.random.default_rng([seed, 1])


def sampled_drafts(
    instance: Instance, batch: int, rng: np.random.Generator, drafting: Drafting = Drafting.INDEPENDENT
) -> Drafts:
    """Draw ``batch`` requests' drafts from an instance, as float64 arrays."""
    table = draft_table(instance, drafting)
    probability = table.law.probability / table.law.probability.sum()
    return table.drafts(rng.choice(len(probability), size=batch, p=probability))


def draft_table(instance: Instance, drafting: Drafting = Drafting.INDEPENDENT) -> DraftTable:
    """Return all drafts of an instance with their probabilities, in float64."""
    return _table(instance.floats, drafting)


@lru_cache(maxsize=16)
def _table(instance: Instance, drafting: Drafting) -> DraftTable:
    # Cached: checks of batches and seeds make thousands of small draws from one instance.
    return DraftTable(instance, drafting, arithmetic())


def extended_cells(
    instance: Instance, tokens: NDArray[np.int64], lengths: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Continue emissions by the target to L+1 tokens; return each text's index among V^(L+1), int [B].

    ``tokens`` int [B, L+1], of which the first ``lengths`` [B] count.
    """
    vocab, target = instance.vocab_size, instance.floats.target
    index = np.zeros(len(tokens), dtype=np.int64)
    for position in range(instance.draft_length + 1):
        rows = target.rows(position)[index]
        cumulative = np.cumsum(rows, axis=1)
        threshold = rng.random(len(tokens))[:, None] * cumulative[:, -1:]
        drawn = np.minimum(
            (cumulative <= threshold).sum(axis=1), (cumulative < cumulative[:, -1:]).sum(axis=1)
        )
        index = index * vocab + np.where(position < lengths, tokens[:, position], drawn)
    return index
