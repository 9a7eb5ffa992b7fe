"""Decide losslessness at any size where few drafts are likely: add up what is emitted after each of them.

Let cover(s, t) be the probability that an emission begins with the tokens s and then t, and live(s) the sum
of it over t: an emission goes on after s. Continued by the target, text has the target's law iff

    cover(s, t) = live(s) p(t | s)    for every s that can be accepted and every token t:

texts that begin with s are those that go on after s and those that ended in s or before, which the target
continues. Only the prefixes of drafts can be accepted. So the law of the emission after each draft, added up
with the drafts' probabilities, proves or disproves it: with few likely drafts at any vocabulary and length.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.drafting import next_draft_law
from spec_oracle.toy import Context
from verifiers import Paths, Siblings

Rows: TypeAlias = Callable[[Context], tuple[Floats, Floats]]
PathTuple: TypeAlias = tuple[Context, ...]
UNLIKELY = 1e-9
"""Tokens that are less likely are not followed as drafts: `DraftTree.unseen` is what is left out."""


@dataclass(frozen=True)
class DraftTree:
    """Target and draft rows along the likely drafts.

    ``rows(context)`` are the rows [V] of target and draft after a context of up to ``draft_length`` tokens,
    always the same ones; ``drafting`` says how the ``num_paths`` paths are drawn.
    """

    vocab_size: int
    draft_length: int
    rows: Rows
    num_paths: int = 1
    drafting: Siblings = Siblings.INDEPENDENT

    @cached_property
    def likely(self) -> Mapping[PathTuple, float]:
        """The probability of every tuple of paths that is not unlikely."""
        tuples: dict[PathTuple, float] = {((),) * self.num_paths: 1.0}
        for _ in range(self.draft_length):
            for path in range(self.num_paths):
                tuples = {
                    (*paths[:path], (*paths[path], token), *paths[path + 1 :]): mass * chance
                    for paths, mass in tuples.items()
                    for token, chance in self._next(paths, path)
                }
        return tuples

    def _next(self, paths: PathTuple, path: int) -> Iterator[tuple[int, float]]:
        """Yield the likely next tokens of a path, when those before it have one more token already."""
        depth = len(paths[path])
        here = np.array([[other[:depth] == paths[path] for other in paths]])
        drawn = np.array([[other[-1] for other in paths[:path]]], dtype=np.int64).reshape(1, -1)
        law = next_draft_law(self.drafting, self.rows(paths[path])[1][None], drawn, here, path)[0]
        yield from ((int(token), float(law[token])) for token in np.flatnonzero(law > UNLIKELY))

    @property
    def unseen(self) -> float:
        """The probability of all other drafts."""
        return max(0.0, 1.0 - sum(self.likely.values()))

    def drafts(self, paths: PathTuple) -> Paths:
        """Return the drafts of one request."""
        along = [[self.rows(path[:depth]) for depth in range(self.draft_length + 1)] for path in paths]
        size = (1, self.num_paths, self.draft_length)
        return Paths(
            np.array([paths], dtype=np.int64).reshape(size),
            np.array([[[draft for _, draft in rows[:-1]] for rows in along]]).reshape(*size, self.vocab_size),
            np.array([[[target for target, _ in rows] for rows in along]]),
        )


class Account:
    """What is emitted after the drafts of a tree, added up."""

    def __init__(self, tree: DraftTree) -> None:
        self._tree = tree
        self._cover: dict[Context, Floats] = defaultdict(lambda: np.zeros(tree.vocab_size))
        self.lengths = np.zeros(tree.draft_length + 1)
        """The probability of each accepted length."""
        self.assumed = 0.0

    def add(self, paths: PathTuple, law: ConditionalLaw) -> None:
        """Add the law of the emission after likely drafts."""
        probability = self._tree.likely[paths]
        self.assumed += probability * law.assumed
        for prefix, masses in law.leaves.items():
            mass = probability * float(masses.sum())
            self.lengths[len(prefix)] += mass
            self._cover[prefix] += probability * masses
            for depth, token in enumerate(prefix):
                self._cover[prefix[:depth]][token] += mass

    def total_variation(self, allowance: float = 0.0) -> float:
        """Return the distance of the text of L+1 tokens from the target's, after the drafts that were added.

        Of other drafts it knows nothing: they may change it by their probability. ``allowance`` is taken off
        every difference of two probabilities of a token, given that text goes on there.
        """
        followers: dict[Context, list[int]] = defaultdict(list)
        for context in self._cover:
            if context:
                followers[context[:-1]].append(context[-1])
        return self._gaps((), 0.0, followers, allowance) / 2

    def following(self, context: Context, mass: float) -> Floats:
        """Return the probability [V] that text begins with a context and then each token.

        ``mass`` is that of text which begins with the context. What ended there or before is continued by the
        target.
        """
        target = self._tree.rows(context)[0]
        if context not in self._cover:
            return mass * target
        cover = self._cover[context]
        return np.maximum(cover + (mass - float(cover.sum())) * target, 0.0)

    def largest_gap(self) -> tuple[Context, int, float, float]:
        """Return the tokens and the next one with the largest gap, its target probability, and the one found.

        The probability found is that of the next token, given that an emission goes on there.
        """
        gaps = []
        for context, cover in self._cover.items():
            target, live = self._tree.rows(context)[0], float(cover.sum())
            wrong = abs(cover - live * target)
            token = int(wrong.argmax())
            found = float(cover[token]) / (live or 1.0)
            gaps.append((float(wrong[token]), context, token, float(target[token]), found))
        return max(gaps)[1:]

    def _gaps(
        self, context: Context, surplus: float, followers: Mapping[Context, list[int]], allowance: float
    ) -> float:
        """Return the summed gaps of texts that begin with a context, which come too often by ``surplus``."""
        if context not in self._cover:
            return abs(surplus)
        cover, target = self._cover[context], self._tree.rows(context)[0]
        live = float(cover.sum())
        wrong = cover - live * target
        wrong -= np.clip(wrong, -allowance * live, allowance * live)
        surpluses = wrong + surplus * target
        gaps = abs(surpluses)
        total = float(gaps.sum())
        for token in followers[context]:
            below = self._gaps((*context, token), float(surpluses[token]), followers, allowance)
            total += below - float(gaps[token])
        return total
