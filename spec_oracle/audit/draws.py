"""Random drafts of an instance, the completions that emitted tokens begin, and samples of a sampler."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import stream
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import Law
from spec_oracle.audit.sampling import confirm
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact import Gap
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.gap import largest_gap
from spec_oracle.statistics import draws_needed_by_joint_e_process
from spec_oracle.toy import Instance
from verifiers import Paths, Siblings
from verifiers.sampling import invert_cdf

# TV between traced and uninstrumented runs of a sampler that uninstrumented samples should detect.
CONFIRMING_TV: Final = 0.02
CONFIRMING_PILOT: Final = 1000  # Requests of the first call by which their pace is measured.

Requests: TypeAlias = Callable[[Instance, int, np.random.Generator], tuple[Paths, object]]
"""Samples the drafts of so many requests, and returns them with the random numbers that belong to them."""


def sampled_drafts(
    instance: Instance, batch: int, rng: np.random.Generator, drafting: Siblings = Siblings.INDEPENDENT
) -> Paths:
    """Draw ``batch`` requests' drafts from an instance, as float64 arrays."""
    table = draft_table(instance, drafting)
    probability = table.law.probability / table.law.probability.sum()
    return table.paths(rng.choice(len(probability), size=batch, p=probability))


def extended_cells(
    instance: Instance, tokens: NDArray[np.int64], lengths: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Continue emissions by the target to L+1 tokens; return each completion's index among V^(L+1), int [B].

    ``tokens`` int [B, L+1], of which the first ``lengths`` [B] count.
    """
    vocab, target = instance.vocab_size, instance.floats.target
    index = np.zeros(len(tokens), dtype=np.int64)
    for position in range(instance.draft_length + 1):
        rows = target.rows(position)[index]
        drawn = invert_cdf(rows, rng.random(len(tokens)))
        index = index * vocab + np.where(position < lengths, tokens[:, position], drawn)
    return index


def completion(instance: Instance, cell: int, tokens: int = 0) -> str:
    """Return what a person reads for the completion of L+1 tokens, or of so many, with this index."""
    shape = (instance.vocab_size,) * (tokens or instance.draft_length + 1)
    return f"completion {','.join(map(str, map(int, np.unravel_index(cell, shape))))}"


class Sampler:
    """Calls code under test on fresh drafts; its samples share a generator, and a stream of drafts.

    The drafts have a stream of their own, by ``name``: one shared with the code would couple drafts to its
    decisions, defect C1 of the catalogue in the harness. Code whose random numbers belong to its drafts gets
    both from ``drafted``.
    """

    def __init__(self, code: Any, seed: int, name: str, drafted: Requests | None = None) -> None:
        self.code = code
        self.rng = stream(seed, name)
        self.generator = code.generator(seed)
        self._drafted = drafted or self._drafts_alone

    def _drafts_alone(self, toy: Instance, count: int, rng: np.random.Generator) -> tuple[Paths, object]:
        return sampled_drafts(toy, count, rng), self.generator

    def requests(self, instance: Instance, count: int) -> tuple[Paths, object]:
        """Return the arguments of a call on so many requests."""
        return self._drafted(instance, count, self.rng)

    def on(self, instance: Instance) -> "Sample":
        """Return the empty sample of an instance."""
        width = instance.draft_length + 1
        law = instance.floats.target.joint(width)
        return Sample(self, instance, law, np.zeros(len(law), np.int64), np.zeros(width, np.int64))

    def most_within(self, seconds: float, instance: Instance, *, start: int, most: int) -> int:
        """Return how many requests one call can verify in about that time, from ``start`` to ``most``.

        Measured by calls of growing size, whose samples are thrown away. The first may compile; work may grow
        faster than the batch.
        """
        self.on(instance).draw(start)
        count = start
        while count < most:
            trial = self.on(instance)
            trial.draw(count)
            room = seconds / max(trial.seconds, 1e-9)
            if room < effort.CALL_GROWTH:
                return max(start, min(most, int(count * room)))
            count *= effort.CALL_GROWTH
        return max(start, most)


@dataclass
class Sample:
    """What was sampled on one instance: counts of completions of L+1 tokens, and of accepted lengths.

    ``seconds`` is the code's own time.
    """

    sampler: Sampler
    instance: Instance
    law: NDArray[np.float64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    seconds: float = 0.0
    slack: ClassVar[float] = 0.0

    def draw(self, count: int) -> NDArray[np.int64]:
        """Verify so many requests in one call; return the counts of their completions alone."""
        call = self.sampler.requests(self.instance, count)
        started = time.perf_counter()
        emissions = self.sampler.code(*call)
        self.seconds += time.perf_counter() - started
        cells = extended_cells(self.instance, emissions.tokens, emissions.lengths, self.sampler.rng)
        counts = np.bincount(cells, minlength=len(self.law))
        self.counts += counts
        self.lengths += np.bincount(emissions.lengths - 1, minlength=len(self.lengths))
        return counts

    @property
    def draws(self) -> int:
        """Requests verified so far."""
        return int(self.counts.sum())

    @property
    def total_variation(self) -> float:
        """Total variation as sampled; noise included."""
        return float(abs(self.counts / self.draws - self.law).sum() / 2)

    @property
    def largest_gap(self) -> Gap:
        """The completion with the largest gap, as sampled."""
        return largest_gap(self.law, self.counts / self.draws, self.extended().shape)

    def extended(self) -> NDArray[np.float64]:
        """Return the law of the first L+1 tokens as sampled, shape (V,) * (L+1)."""
        shape = (self.instance.vocab_size,) * len(self.lengths)
        return (self.counts / self.draws).reshape(shape)

    @property
    def accepted_length_pmf(self) -> tuple[float, ...]:
        """P(tau = 0), ..., P(tau = L), as sampled."""
        return tuple(self.lengths / max(self.draws, 1))

    @property
    def block_efficiency(self) -> float:
        """Mean number of emitted tokens, tokens per call."""
        return float(sum(n * share for n, share in enumerate(self.accepted_length_pmf, start=1)))


def confirmed_by_samples(
    code: SamplerCode, laws: Mapping[str, Law], rate: float, seed: int, seconds: float = math.inf
) -> str:
    """Compare samples on every instance with its traced law; see `spec_oracle.audit.sampling.confirm`.

    Each instance is sampled by one call, since calls may depend on each other: that is another check's.
    """
    sampler = Sampler(code, seed, "sampler/joint/confirmation")
    samples = {f"instance {name!r}": sampler.on(law.instance) for name, law in laws.items()}
    for sample, law in zip(samples.values(), laws.values(), strict=True):
        sample.law = law.extended().reshape(-1)
    expected = [sample.law for sample in samples.values()]
    needed = draws_needed_by_joint_e_process(CONFIRMING_TV, expected, alpha=rate)
    share, first = seconds / len(samples), next(iter(laws.values())).instance
    count = sampler.most_within(share, first, start=CONFIRMING_PILOT, most=needed)
    for sample in samples.values():
        sample.draw(count)
    return confirm(samples, rate)


_BATCHES: Final = (8, 1)
"""Requests of plain calls."""


def plain_verification(code: SamplerCode, drafting: Siblings, num_paths: int, seed: int) -> None:
    """Verify one batch and one request, drafted from full distributions; errors are those of the contract."""
    toy, rng = panel(3, 3, num_paths, seed)["flat"], stream(seed, "first-call")
    generator = code.generator(seed)
    for batch in _BATCHES:
        code(sampled_drafts(toy, batch, rng, drafting), generator)
