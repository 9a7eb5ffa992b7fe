"""Likely drafts of a tree, and cells in which its completions are counted: outcomes are too many to list.

Completions differ by where they leave the tree: after which context, and by which token, the likeliest ones
one by one and the others by their part of the vocabulary. Continued by the target, they have the target's
probabilities in these cells, whatever the rule.
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spec_oracle.contracts import Emissions
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.toy import Context
from verifiers import Paths

_SINGLE = 6
_PARTS = 4
"""Cells after a context: of single tokens, and of the others by the part of the vocabulary they are in."""


def likely_drafts(tree: DraftTree) -> Paths:
    """Return the likely drafts as requests of one batch."""
    each = [tree.drafts(paths).arrays for paths in tree.likely]
    return Paths(*map(np.concatenate, zip(*each, strict=True)))


def chances_of(tree: DraftTree) -> NDArray[np.float64]:
    """Return the probability of each likely draft, given that it is one of them."""
    chances = np.array(list(tree.likely.values()))
    return np.asarray(chances / chances.sum())


class TreeCells:
    """The cells of one tree: ``law`` [cells] are the target's probabilities."""

    def __init__(self, tree: DraftTree) -> None:
        followers: dict[Context, set[int]] = defaultdict(set)
        for path in {path for paths in tree.likely for path in paths}:
            for depth, token in enumerate(path):
                followers[path[:depth]].add(token)
            followers[path] = set()
        self._cells: dict[Context, NDArray[np.int64]] = {}
        self._cumulative: dict[Context, NDArray[np.float64]] = {}
        for number, context in enumerate(sorted(followers, key=len)):
            target = tree.rows(context)[0]
            cells = _numbered(target) + number * (_SINGLE + _PARTS)
            cells[list(followers[context])] = -1
            self._cells[context], self._cumulative[context] = cells, target.cumsum()
        self.law = self.law_of(lambda context, mass: mass * tree.rows(context)[0])

    def law_of(self, following: Callable[[Context, float], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the probabilities [cells] of completions of which ``following`` says how they go on.

        It returns the probability [V] of a context and each token, given that of the context.
        """
        masses: dict[Context, float] = {(): 1.0}
        law: NDArray[np.float64] = np.zeros(len(self._cells) * (_SINGLE + _PARTS))
        for context, cells in self._cells.items():
            after = following(context, masses[context])
            ends = cells >= 0
            law += np.bincount(cells[ends], after[ends], minlength=len(law))
            masses |= {(*context, int(token)): float(after[token]) for token in np.flatnonzero(~ends)}
        return law

    def of(self, emissions: Emissions, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the cell of each emission, int [B], once the target has continued it."""
        found = np.empty(len(emissions.lengths), dtype=np.int64)
        self._follow((), np.arange(len(found)), emissions, found, rng)
        return found

    def _follow(
        self,
        context: Context,
        requests: NDArray[np.int64],
        emissions: Emissions,
        found: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> None:
        """Fill in the cells of requests whose completions begin with a context."""
        depth, cumulative = len(context), self._cumulative[context]
        drawn = np.searchsorted(cumulative, rng.random(len(requests)) * cumulative[-1], side="right")
        is_emitted = depth < emissions.lengths[requests]
        tokens = np.where(is_emitted, emissions.tokens[requests, depth], drawn)
        cells = found[requests] = self._cells[context][tokens]
        for token in np.unique(tokens[cells < 0]):
            beginning = requests[(cells < 0) & (tokens == token)]
            self._follow((*context, int(token)), beginning, emissions, found, rng)


def _numbered(target: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of each token's cell after one context."""
    cells = _SINGLE + np.arange(len(target)) * _PARTS // len(target)
    likeliest = np.argsort(-target, kind="stable")[:_SINGLE]
    cells[likeliest] = np.arange(len(likeliest))
    return cells
