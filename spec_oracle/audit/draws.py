"""Random drafts of an instance, the texts that follow what code under test emits, and their counts."""

import time
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spec_oracle.contracts import SamplerCode
from spec_oracle.exact import Gap
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.gap import largest_gap
from spec_oracle.toy import Instance
from verifiers import Drafting, Drafts
from verifiers.sampling import invert_cdf

_GROWTH = 4
"""Factor from one measured call to the next."""


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
        drawn = invert_cdf(rows, rng.random(len(tokens)))
        index = index * vocab + np.where(position < lengths, tokens[:, position], drawn)
    return index


@dataclass
class Sample:
    """What was drawn of one instance: counts of extended texts, and of accepted lengths."""

    instance: Instance
    law: NDArray[np.float64]
    cells: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, instance: Instance) -> "Sample":
        """Return the empty sample of an instance."""
        width = instance.draft_length + 1
        law = instance.floats.target.joint(width)
        return cls(instance, law, np.zeros(len(law), np.int64), np.zeros(width, np.int64))

    @property
    def draws(self) -> int:
        """Calls drawn so far."""
        return int(self.cells.sum())

    @property
    def total_variation(self) -> float:
        """Total variation as drawn; noise included."""
        return float(abs(self.cells / self.draws - self.law).sum() / 2)

    @property
    def largest_gap(self) -> Gap:
        """The text with the largest gap, as drawn."""
        return largest_gap(self.law, self.cells / self.draws, self._shape)

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.instance.vocab_size,) * len(self.lengths)

    def extended(self) -> NDArray[np.float64]:
        """Return the law of the first L+1 tokens as drawn, shape (V,) * (L+1)."""
        return (self.cells / self.draws).reshape(self._shape)

    @property
    def accepted_length_pmf(self) -> tuple[float, ...]:
        """P(tau = 0), ..., P(tau = L), as drawn."""
        return tuple(self.lengths / max(self.draws, 1))

    @property
    def block_efficiency(self) -> float:
        """Mean emission length, tokens per call."""
        return float(sum(n * share for n, share in enumerate(self.accepted_length_pmf, start=1)))


@dataclass
class Sampler:
    """Draws from code under test; every call advances its own random streams."""

    code: SamplerCode
    seed: int
    seconds: float = field(default=0.0, init=False)
    draws: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._rng = checks_own_rng(self.seed)
        self._generator = self.code.generator(self.seed)

    @property
    def pace(self) -> float:
        """Draws per second of the code's own time."""
        return self.draws / max(self.seconds, 1e-9)

    def most_within(self, seconds: float, instance: Instance, *, start: int, most: int) -> int:
        """Return how many draws one call can make in about that time, at least ``start``, at most ``most``.

        Measured by calls of growing size, whose draws are thrown away. The first may compile; work may grow
        faster than the batch.
        """
        self.draw(Sample.of(instance), start)
        count = start
        while count < most:
            before = self.seconds
            self.draw(Sample.of(instance), count)
            room = seconds / max(self.seconds - before, 1e-9)
            if room < _GROWTH:
                return max(start, min(most, int(count * room)))
            count *= _GROWTH
        return max(start, most)

    def draw_within(self, seconds: float, sample: Sample, count: int, *, start: int, most: int) -> None:
        """Add ``count`` draws, fewer if they take longer: in calls of ``start`` draws at first, then of more.

        A call that compiles says little of the pace of the others, so every one is timed.
        """
        end, size = self.seconds + seconds, start
        while sample.draws < count and (sample.draws < start or self.seconds < end):
            before = self.seconds
            self.draw(sample, min(size, count - sample.draws))
            room = (end - self.seconds) / max(self.seconds - before, 1e-9)
            size = max(start, min(most, int(size * min(room, _GROWTH))))

    def draw(self, sample: Sample, count: int) -> NDArray[np.int64]:
        """Add ``count`` draws to the sample; return the counts of their extended texts alone."""
        drafts = sampled_drafts(sample.instance, count, self._rng)
        started = time.perf_counter()
        emissions = self.code(drafts, self._generator)
        self.seconds += time.perf_counter() - started
        self.draws += count
        cells = extended_cells(sample.instance, emissions.tokens, emissions.lengths, self._rng)
        counts = np.bincount(cells, minlength=len(sample.law))
        sample.cells += counts
        sample.lengths += np.bincount(emissions.lengths - 1, minlength=len(sample.lengths))
        return counts
