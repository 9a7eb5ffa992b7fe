"""The toys of the study: a grid over size, draft quality and concentration, with fixed seeds."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

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
        *((2, 4, 3), (2, 5, 2), (4, 4, 8), (3, 5, 4), (4, 5, 4)),
        *((6, 3, 8), (8, 3, 8)),
    )


Key: TypeAlias = tuple[int, int, int, str, str, int]
"""Where on the grid a toy lies: V, L, K, draft quality, concentration of the rows, seed."""


@dataclass(frozen=True)
class Toy:
    """One instance and where on the grid it lies."""

    instance: Instance
    quality: str
    concentration: str
    seed: int

    @classmethod
    def at(cls, key: Key) -> "Toy":
        """Return the toy of a key."""
        vocab, length, paths, quality, concentration, seed = key
        (kind, agreement), spread = QUALITIES[quality], CONCENTRATIONS[concentration]
        instance = Instance.random(
            vocab, length, num_paths=paths, seed=seed, kind=kind, concentration=spread, agreement=agreement
        )
        return cls(instance.rounded(DENOMINATOR), quality, concentration, seed)

    @property
    def size(self) -> tuple[int, int, int]:
        """V, L, K."""
        return self.instance.vocab_size, self.instance.draft_length, self.instance.num_paths

    @property
    def num_tuples(self) -> int:
        """Number of draft tuples, V^(L K)."""
        return num_tuples(*self.size)

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


def num_tuples(vocab: int, length: int, paths: int) -> int:
    """Return the number of draft tuples, V^(L K)."""
    tuples: int = vocab ** (length * paths)
    return tuples


def keys(grid: Grid) -> Iterator[Key]:
    """Yield where the toys of ``grid`` lie, smallest first, and then the larger ones."""
    sizes = product(grid.vocab_sizes, grid.draft_lengths, grid.num_paths)
    for size in sorted(sizes, key=lambda size: (num_tuples(*size), size)):
        tuples = num_tuples(*size)
        if tuples <= grid.max_tuples:
            yield from _keys_of(size, grid, grid.seeds if tuples <= grid.few_beyond else 1)
    for size in grid.larger:
        yield from _keys_of(size, grid, 1)


def _keys_of(size: tuple[int, int, int], grid: Grid, seeds: int) -> Iterator[Key]:
    for quality, name, seed in product(grid.qualities, CONCENTRATIONS, range(seeds)):
        yield *size, quality, name, seed
