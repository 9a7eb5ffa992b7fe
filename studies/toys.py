"""The toys of the study: a grid over size, draft quality and concentration, with fixed seeds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from spec_oracle.toy import Instance

QUALITIES = {
    "opposed": ("reversed", 0.0),
    "unrelated": ("dirichlet", 0.0),
    "fair": ("dirichlet", 0.4),
    "good": ("dirichlet", 0.8),
}
"""Draft quality: kind of the models, and how much of the target is mixed into the draft."""

CONCENTRATIONS = {"concentrated": 0.4, "flat": 3.0}
"""Dirichlet concentration of the rows before mixing."""

DENOMINATOR = 64
"""All probabilities are multiples of 1/64: the exact optimum is then quick to find."""


@dataclass(frozen=True)
class Grid:
    """Which toys to take: all sizes of at most ``max_tuples`` draft tuples, V^(L K).

    ``seeds`` toys for every size, quality and concentration; one where there are more than ``few_beyond``
    tuples, because those take most of the time. ``larger``: V, L, K of further toys, one for every quality
    and concentration, of which only those of few tuples are enumerated.
    """

    vocab_sizes: tuple[int, ...] = (2, 3, 4)
    draft_lengths: tuple[int, ...] = (1, 2, 3)
    num_paths: tuple[int, ...] = (2, 3, 4)
    qualities: tuple[str, ...] = tuple(QUALITIES)
    max_tuples: int = 4096
    seeds: int = 2
    few_beyond: int = 1024
    larger: tuple[tuple[int, int, int], ...] = (
        (2, 4, 3),
        (2, 5, 2),
        (4, 4, 8),
        (3, 5, 4),
        (4, 5, 4),
        (6, 3, 8),
        (8, 3, 8),
    )


@dataclass(frozen=True)
class Toy:
    """One instance and where on the grid it lies."""

    instance: Instance
    quality: str
    concentration: str
    seed: int

    @property
    def size(self) -> tuple[int, int, int]:
        """V, L, K."""
        return self.instance.vocab_size, self.instance.draft_length, self.instance.num_paths

    @property
    def num_tuples(self) -> int:
        """Number of draft tuples, V^(L K)."""
        vocab, length, paths = self.size
        tuples: int = vocab ** (length * paths)
        return tuples

    @property
    def source(self) -> str:
        """The expression that makes the instance."""
        vocab, length, paths = self.size
        kind, agreement = QUALITIES[self.quality]
        return (
            f"Instance.random({vocab}, {length}, num_paths={paths}, seed={self.seed}, kind={kind!r}, "
            f"concentration={CONCENTRATIONS[self.concentration]}, agreement={agreement})"
            f".rounded({DENOMINATOR})"
        )


def toys(grid: Grid) -> Iterator[Toy]:
    """Yield the toys of ``grid``, smallest first."""
    sizes = product(grid.vocab_sizes, grid.draft_lengths, grid.num_paths)
    for vocab, length, paths in sorted(sizes, key=lambda size: (size[0] ** (size[1] * size[2]), size)):
        tuples = vocab ** (length * paths)
        if tuples <= grid.max_tuples:
            seeds = grid.seeds if tuples <= grid.few_beyond else 1
            yield from toys_of((vocab, length, paths), grid.qualities, seeds)


def toys_of(size: tuple[int, int, int], qualities: Iterable[str], seeds: int = 1) -> Iterator[Toy]:
    """Yield the toys of ``size`` V, L, K."""
    vocab, length, paths = size
    for quality, (name, concentration), seed in product(qualities, CONCENTRATIONS.items(), range(seeds)):
        kind, agreement = QUALITIES[quality]
        instance = Instance.random(
            vocab,
            length,
            num_paths=paths,
            seed=seed,
            kind=kind,
            concentration=concentration,
            agreement=agreement,
        )
        yield Toy(instance.rounded(DENOMINATOR), quality, name, seed)
