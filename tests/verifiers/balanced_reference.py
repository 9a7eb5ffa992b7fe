"""A second implementation of balanced selection, for tests: brute force, LP, enumeration. Slow."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
from scipy.optimize import linprog


def subsets(size: int) -> Iterator[tuple[int, ...]]:
    """Yield every non-empty subset of 0..size-1."""
    for count in range(1, size + 1):
        yield from combinations(range(size), count)


def hit(q, tokens, m):
    """Return 1 - (1 - q(T))^m, the chance that one of m drafts lies in T."""
    return 1 - (1 - sum(q[x] for x in tokens)) ** m


def optimal_acceptance(p, q, m):
    """Return alpha* by trying every subset."""
    return min([1, *(1 - sum(p[x] for x in T) + hit(q, T, m) for T in subsets(len(p)))])


def lexicographic_base(p, q, m):
    """Return the base of T -> hit(T) that is lexicographically optimal for weights p, in rationals.

    Fujishige's decomposition by brute force: serve the set of least (gain in hit) / p, the largest such set,
    then go on with the rest. Tokens without p come last, in proportion to q.
    """
    done: tuple[int, ...] = ()
    base = [Fraction(0)] * len(p)
    while any(p[x] > 0 for x in range(len(p)) if x not in done):
        rest = [x for x in range(len(p)) if x not in done]
        options = []
        for T in subsets(len(rest)):
            tokens = tuple(rest[i] for i in T)
            weight = sum(p[x] for x in tokens)
            if weight > 0:
                options.append(((hit(q, done + tokens, m) - hit(q, done, m)) / weight, -len(tokens), tokens))
        slope, _, tokens = min(options)
        for x in tokens:
            base[x] = slope * p[x]
        done += tokens
    rest = [x for x in range(len(p)) if x not in done and q[x] > 0]
    for x in rest:
        base[x] = (1 - hit(q, done, m)) * q[x] / sum(q[y] for y in rest)
    return base


def base_by_linear_program(p, q, m):
    """Return max over bases s of sum min(p, s), by HiGHS over all 2^V constraints."""
    size = len(p)
    sets = list(subsets(size))
    inside = np.array([[float(x in T) for x in range(size)] for T in sets])
    # Variables s, then u <= min(p, s).
    rows = np.vstack([np.hstack([inside, 0 * inside]), np.hstack([-np.eye(size), np.eye(size)])])
    limits = [*(float(hit(q, T, m)) for T in sets), *[0.0] * size]
    bounds = [(0, None)] * size + [(0, float(mass)) for mass in p]
    whole = [np.array([1.0] * size + [0.0] * size)]
    result = linprog([0.0] * size + [-1.0] * size, rows, limits, whole, [1.0], bounds, method="highs")
    assert result.status == 0
    return -result.fun


def selection_law(q, ranks, m):
    """Return the law [V] of the selected token, by enumerating all m-tuples of (token, rank).

    ``ranks`` [V, R]: the rank law of a draft of each token. The lowest rank is selected, of several the
    first.
    """
    labels = [(x, rank, q[x] * chance) for x in range(len(q)) for rank, chance in enumerate(ranks[x])]
    law = [mass * 0 for mass in q]
    for drafts in product([label for label in labels if label[2] > 0], repeat=m):
        token, _, _ = min(drafts, key=lambda label: label[1])
        law[token] += prod(mass for _, _, mass in drafts)
    return np.array(law)
