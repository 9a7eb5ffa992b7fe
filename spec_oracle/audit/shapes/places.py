"""A place: a shape with the rows of one seed, one call there as an experiment, and what its outcome must be.

Few drafts of a place are likely (`spec_oracle.exact.draft_tree`). What is emitted after each of them, added
up, proves or disproves losslessness there, whatever the vocabulary: a criterion, since the outcomes are too
many to list. Samples are counted in cells.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.declared import Facts
from spec_oracle.audit.experiment import Experiment, TracedOutcome
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.rounding import tolerance, unit_roundoff
from spec_oracle.audit.shapes.trees import tree_of, wanted_of
from spec_oracle.contracts import Emissions
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import Account, DraftTree
from spec_oracle.toy import Context
from verifiers import Paths, Siblings

ENGINES: Final = "float32"
"""The type in which engines compute, whatever their rows come in."""

_SINGLE = 6
_PARTS = 4
"""Cells after a context: of single tokens, and of the others by the part of the vocabulary they are in."""


@dataclass(frozen=True)
class Place:
    """A shape, with the rows that a ``seed`` makes; ``drafting`` says how its paths are drawn."""

    shape: Shape
    seed: int
    drafting: Siblings

    @property
    def tree(self) -> DraftTree:
        """The rows along the likely drafts."""
        return _tree_at(self)

    @property
    def drafts(self) -> list[Paths]:
        """The likely drafts of the request, each alone."""
        return [self.tree.drafts(paths) for paths in self.tree.likely]

    @property
    def chances(self) -> NDArray[np.float64]:
        """The probability of each likely draft, given that it is one of them."""
        chances: NDArray[np.float64] = np.array(list(self.tree.likely.values()))
        return np.asarray(chances / chances.sum())

    @property
    def wanted(self) -> DraftTree:
        """The tree with the target that is to be kept."""
        return wanted_of(self.shape, self.tree)


@lru_cache(maxsize=2)  # rows at full vocabularies take many megabytes
def _tree_at(place: Place) -> DraftTree:
    return tree_of(place.shape, place.seed, place.drafting)


Laws: TypeAlias = Callable[[Place, float], Sequence[ConditionalLaw]]
"""Finds what one request emits at a place, after each likely draft, up to a processor time."""

Many: TypeAlias = Callable[[int], NDArray[np.int64]]
"""Makes so many ordinary calls at a place; returns the cells of their completions."""


def not_sampled(_: int) -> NDArray[np.int64]:
    """Make no calls: of code whose every outcome is enumerated."""
    return np.empty(0, np.int64)


def experiment_at(place: Place, laws: Laws, facts: Facts, many: Many = not_sampled) -> Experiment:
    """Return the experiment of one call: ``laws`` trace it, ``many`` makes ordinary calls.

    Its total variation is that beyond what rounding does to single tokens. Rounding of all of them, what is
    on record in ``facts``, and the drafts that are not tried explain some more. Code may compute in
    `ENGINES`, or in the type of its rows where that is coarser.
    """
    shape, tree = place.shape, place.tree
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    rounding = tolerance(coarsest, tree.draft_length, tree.vocab_size)
    allowed = max(facts.explained(shape.draft_length + 1), rounding) + tree.unseen

    def trace(_: int, end: float) -> TracedOutcome:
        account, found = Account(place.wanted), laws(place, end)
        for paths, law in zip(place.tree.likely, found, strict=True):
            account.add(paths, law)
        gap = account.total_variation(2 * unit_roundoff(coarsest))
        outcome = TracedOutcome({}, len(found), total_variation=gap, assumed=account.assumed)
        if gap <= allowed:
            return outcome
        cells = dict(enumerate(TreeCells(place.wanted).law_of(account.following).tolist()))
        is_decided = not all(law.is_certain for law in found)
        return replace(outcome, law=cells, is_decided=is_decided, remark=_largest_gap(account))

    return Experiment(
        what=str(shape),
        size="a completion",
        expect=lambda: dict(enumerate(TreeCells(place.wanted).law.tolist())),
        many=cast(Callable[[int], Sequence[int]], many),
        trace=trace,
        allowed=allowed,
    )


def _largest_gap(account: Account) -> str:
    beginning, token, expected, found = account.largest_gap()
    after = f"after tokens {','.join(map(str, beginning))}" if beginning else "at position 0"
    return f": {after}, token {token} is emitted with probability {found:.4g}, {expected:.4g} expected"


class TreeCells:
    """Cells in which the completions of one tree are counted: ``law`` [cells] are the target's probabilities.

    Completions differ by where they leave the tree of drafts: after which context, and by which token, the
    likeliest ones one by one and the others by their part of the vocabulary. Continued by the target, they
    have the target's probabilities in these cells, whatever the rule.
    """

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
