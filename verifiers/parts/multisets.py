"""Multisets of independent draws: every outcome once, with the number of orders in which it can come."""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial, prod


def multisets(num_outcomes: int, size: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield every sorted tuple of ``size`` outcomes 0..num_outcomes-1, and its number of distinct orders."""
    for outcomes in combinations_with_replacement(range(num_outcomes), size):
        repeats = prod(factorial(outcomes.count(outcome)) for outcome in set(outcomes))
        yield outcomes, factorial(size) // repeats
