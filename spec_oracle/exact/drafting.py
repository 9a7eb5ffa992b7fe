"""The law of the draft paths: every tuple of K paths with its probability."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import comb

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from verifiers import Drafting, InvalidInputError
from verifiers.arrays import Array, arange_like, namespace, normalised
from verifiers.parts.multisets import multisets
from verifiers.parts.top_draft_law import child_law


@dataclass(frozen=True)
class DraftLaw:
    """All draft tuples of positive probability.

    ``tokens`` int [T, K, L]; ``contexts`` int [T, K, L+1], the lexicographic index among V^d of each path's
    first d tokens; ``probability`` [T], summing to one, in the arithmetic of the draft rows.
    """

    tokens: Integers
    contexts: Integers
    probability: Numbers


def draft_law(
    levels: Sequence[Numbers], num_paths: int, drafting: Drafting, *, max_tuples: int = 5_000_000
) -> DraftLaw:
    """Enumerate the tuples of ``num_paths`` paths that ``drafting`` yields.

    ``levels[d]`` [V^d, V] are the draft rows after d tokens, d = 0..L-1. Grows all paths by one token at a
    time, path after path, since the law of a child may depend on the siblings already drawn there. Raises
    `InvalidInputError` past ``max_tuples`` tuples.
    """
    vocab = levels[0].shape[1]
    if drafting is Drafting.INDEPENDENT:
        _require_few(num_tuples(levels, num_paths), max_tuples, levels, num_paths)
    tokens = np.zeros((1, num_paths, 0), dtype=np.int64)
    contexts = np.zeros((1, num_paths, 1), dtype=np.int64)
    probability = levels[0][:1, 0] * 0 + 1
    for level in levels:
        drawn = np.zeros((len(tokens), 0), dtype=np.int64)
        for path in range(num_paths):
            node = contexts[:, :, -1]
            here = node == node[:, path : path + 1]
            law = next_draft_law(drafting, level[node[:, path]], drawn, here, path)
            parent, token = np.nonzero(law > 0)
            _require_few(len(parent), max_tuples, levels, num_paths)
            probability = probability[parent] * law[parent, token]
            drawn = np.concatenate([drawn[parent], token[:, None]], axis=1)
            tokens, contexts = tokens[parent], contexts[parent]
        tokens = np.concatenate([tokens, drawn[:, :, None]], axis=2)
        contexts = np.concatenate([contexts, contexts[:, :, -1:] * vocab + drawn[:, :, None]], axis=2)
    return DraftLaw(tokens, contexts, probability)


def multiset_law(
    levels: Sequence[Numbers], num_paths: int, drafting: Drafting, *, max_tuples: int = 5_000_000
) -> DraftLaw:
    """Enumerate the draft tuples up to the order of their paths: up to K! fewer, for code that ignores it.

    Every multiset of independent paths comes once, sorted, with the probability of all its orders; under
    other laws of drafting, whose paths depend on each other, every tuple comes as in `draft_law`.
    """
    if drafting is not Drafting.INDEPENDENT:
        return draft_law(levels, num_paths, drafting, max_tuples=max_tuples)
    single = draft_law(levels, 1, drafting, max_tuples=max_tuples)
    _require_few(comb(len(single.tokens) + num_paths - 1, num_paths), max_tuples, levels, num_paths)
    chosen, orders = zip(*multisets(len(single.tokens), num_paths), strict=True)
    paths = np.array(chosen)
    probability = single.probability[paths].prod(axis=1) * np.array(orders)
    return DraftLaw(single.tokens[paths, 0], single.contexts[paths, 0], probability)


def num_tuples(levels: Sequence[Numbers], num_paths: int) -> int:
    """Return how many tuples of independent paths have positive probability."""
    reached = np.ones(1, dtype=bool)
    for level in levels:
        reached = (reached[:, None] & np.asarray(level > 0, dtype=bool)).reshape(-1)
    return int(int(reached.sum()) ** num_paths)


def _require_few(count: int, max_tuples: int, levels: Sequence[Numbers], num_paths: int) -> None:
    if count > max_tuples:
        raise InvalidInputError(
            f"instance: {Decimal(count):.3g} draft tuples or more, at most {max_tuples:,} are enumerated "
            f"(vocab_size {levels[0].shape[1]}, draft_length {len(levels)}, num_paths {num_paths})"
        )


def next_draft_law(drafting: Drafting, rows: Array, drawn: Array, here: Array, path: int) -> Array:
    """Return the law [T, V] of the next token of ``path`` given its node's row and earlier siblings.

    ``drawn`` int [T, path] are the tokens that earlier paths took at this position; ``here`` bool [T, K]
    marks the paths that pass this node. Arrays of any library.
    """
    if drafting is Drafting.INDEPENDENT:
        return rows
    if drafting is Drafting.DISTINCT:
        return _without_replacement(rows, drawn, here[:, :path])
    return child_law(rows, here[:, :path].sum(1), here.sum(1))


def _without_replacement(rows: Array, drawn: Array, sibling: Array) -> Array:
    """Return q restricted to the tokens that this round has not drawn yet, renormalised."""
    xp = namespace(rows)
    tokens = arange_like(drawn, rows.shape[1])
    counts = xp.sum(xp.astype((drawn[:, :, None] == tokens) & sibling[:, :, None], xp.int64), axis=1)
    possible = rows > 0
    beyond = counts * 0 + (drawn.shape[1] + 1)
    fewest = xp.min(xp.where(possible, counts, beyond), axis=1, keepdims=True)
    return normalised(xp.where(possible & (counts == fewest), rows, rows * 0))
