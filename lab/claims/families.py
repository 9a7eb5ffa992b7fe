"""Families of small instances in rationals, in a fixed order from small to large.

Target rows come in non-increasing order where a family says so: renaming tokens changes no claim, except for
the names themselves. Nothing here depends on a random generator's implementation.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import lcm
from typing import Any, TypeAlias

from spec_oracle.toy import Context, Instance, ToyModel

Row: TypeAlias = tuple[Fraction, ...]


@dataclass(frozen=True)
class Family:
    """A finite list of instances; ``name`` completes the phrase "all instances of ..."."""

    name: str
    instances: Callable[[], Iterator[Instance]]

    def __add__(self, other: "Family") -> "Family":
        def both() -> Iterator[Instance]:
            yield from self.instances()
            yield from other.instances()

        return Family(f"{self.name}; {other.name}", both)

    def where(self, condition: str, keep: Callable[[Instance], bool]) -> "Family":
        """Return the instances that ``keep`` lets through; ``condition`` says which those are."""
        return Family(f"{self.name}, {condition}", lambda: filter(keep, self.instances()))


def rows(vocab_size: int, denominator: int) -> Iterator[Row]:
    """Yield every row of multiples of 1/denominator, the largest first token first."""
    for head in product(range(denominator, -1, -1), repeat=vocab_size - 1):
        if sum(head) <= denominator:
            yield tuple(Fraction(part, denominator) for part in (*head, denominator - sum(head)))


def context_free(
    *,
    lengths: Sequence[int] = (1,),
    vocab_sizes: Sequence[int] = (2,),
    paths: Sequence[int] = (1,),
    denominators: Sequence[int],
) -> Family:
    """All instances with one row after every context, ordered by L, then V, K and the common denominator."""

    def instances() -> Iterator[Instance]:
        for length, vocab, num_paths, denominator in product(lengths, vocab_sizes, paths, denominators):
            for target, draft in product(rows(vocab, denominator), repeat=2):
                common = lcm(*(mass.denominator for mass in target + draft))
                if common == denominator and list(target) == sorted(target, reverse=True):
                    yield Instance.context_free(target, draft, draft_length=length, num_paths=num_paths)

    name = (
        f"context-free rows, target non-increasing, L = {_span(lengths)}, V = {_span(vocab_sizes)}, "
        f"K = {_span(paths)}, denominators {_span(denominators)}"
    )
    return Family(name, instances)


def prefix_dependent(shapes: Sequence[tuple[int, int, int]], *, count: int, denominator: int = 12) -> Family:
    """``count`` pseudo-random instances of each shape (L, V, K), other rows after every context."""

    def instances() -> Iterator[Instance]:
        for length, vocab, num_paths in shapes:
            for seed in range(count):
                draws = random.Random(seed)  # noqa: S311  # test data, not secrets
                target = _model(draws, vocab, length, denominator)
                draft = _model(draws, vocab, length - 1, denominator)
                yield Instance(target, draft, length, num_paths)

    listed = ", ".join(f"({length}, {vocab}, {num_paths})" for length, vocab, num_paths in shapes)
    return Family(
        f"pseudo-random rows in multiples of 1/{denominator}, other ones after every context, "
        f"{count} for each (L, V, K) of {listed}",
        instances,
    )


def rearranged(instance: Instance, options: int) -> list[Instance]:
    """Return the instances with the same first rows and, after each first token, any of a few second rows.

    The second rows are those of ``instance``, of L = 2, after its first ``options`` tokens; the row of the
    bonus is uniform. A rule that sees the rows along its drafts does not see the others.
    """
    vocab = instance.vocab_size

    def model(rows: ToyModel, picks: tuple[int, ...], order: int) -> ToyModel:
        table: dict[Context, Any] = {(token,): rows.conditional((pick,)) for token, pick in enumerate(picks)}
        for length in range(2, order + 1):
            table |= dict.fromkeys(product(range(vocab), repeat=length), [Fraction(1, vocab)] * vocab)
        return ToyModel.from_conditionals({(): rows.conditional(()), **table}, order=order)

    return [
        Instance(model(instance.target, picks, 2), model(instance.draft, picks, 1), 2, instance.num_paths)
        for picks in product(range(options), repeat=vocab)
    ]


def _model(draws: random.Random, vocab: int, order: int, denominator: int) -> ToyModel:
    conditionals: dict[Context, Row] = {
        context: _row(draws, vocab, denominator)
        for length in range(order + 1)
        for context in product(range(vocab), repeat=length)
    }
    return ToyModel.from_conditionals(conditionals, order=order)


def _row(draws: random.Random, vocab: int, denominator: int) -> Row:
    # Only Random.random() is promised to give the same numbers in every version of Python.
    cuts = sorted(int(draws.random() * (denominator + 1)) for _ in range(vocab - 1))
    edges = [0, *cuts, denominator]
    return tuple(Fraction(high - low, denominator) for low, high in pairwise(edges))


def _span(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return str(first) if first == last else f"{first}..{last}"
