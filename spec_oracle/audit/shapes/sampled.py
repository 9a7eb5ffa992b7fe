"""Samples at shapes: of code whose random numbers cannot be traced, and against code that knows it is traced.

Texts differ by where they leave the tree of drafts: after which context, and by which token, the likeliest
ones one by one and the others by their place in the vocabulary. Continued by the target, texts have these
cells with the target's probabilities, whatever the rule.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.contracts import Emissions, SamplerCode
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.toy import Context
from verifiers import Paths

_MOST_NUMBERS = 1_000_000
"""Most probabilities that are handed over in one call."""

_SINGLE = 6
_PARTS = 4
"""Cells after a context: of single tokens, and of the others by the part of the vocabulary they are in."""


class TreeCells:
    """The cells of the texts of one tree: ``law`` [cells] under the target."""

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
        """Return the law [cells] of texts of which ``following`` says how they go on.

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
        """Fill in the cells of requests whose texts begin with a context."""
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


def chances_of(tree: DraftTree) -> NDArray[np.float64]:
    """Return the probability of each likely draft, given that it is one of them."""
    chances: NDArray[np.float64] = np.array(list(tree.likely.values()))
    return np.asarray(chances / chances.sum())


def batches_at(shapes: Sequence[Shape], requests: float) -> list[int]:
    """Return how many requests each of the rounds has at each shape, of ``requests`` in all."""
    most = int(requests / len(shapes) / effort.SHAPES_ROUNDS)
    return [max(1, min(most, _MOST_NUMBERS * shape.batch // shape.numbers)) for shape in shapes]


def sampled_at(
    code: SamplerCode,
    trees: Sequence[tuple[Shape, DraftTree]],
    rng: np.random.Generator,
    *,
    alpha: float,
    requests: float,
    seconds: float = 0.0,
    admitted: float | None = None,
) -> CheckResult:
    """Judge texts sampled at shapes, in batches of independent requests, against the target's.

    About ``requests`` are verified. Where they have many numbers, few are in a round: there are
    `effort.SHAPES_ROUNDS`, and more within ``seconds`` of processor time.
    """
    cells = [TreeCells(tree) for _, tree in trees]
    batches = batches_at([shape for shape, _ in trees], requests)

    def drawn(number: int) -> NDArray[np.int64]:
        shape, tree = trees[number]
        tuples, chances = list(tree.likely), chances_of(tree)
        chosen = rng.choice(len(tuples), size=batches[number], p=chances)
        several = [tree.drafts(paths) for paths in tuples]
        names = ("tokens", "draft_probs", "target_probs")
        drafts = Paths(*(np.concatenate([getattr(one, name) for one in several])[chosen] for name in names))
        for one, paths in enumerate(tuples):
            if level := tree.level(paths):
                depth, tokens = level
                rows = np.flatnonzero(chosen == one)
                drafts.tokens[rows, 0, depth] = rng.choice(tokens, len(rows))
        handed = replace(code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)
        return cells[number].of(handed(drafts, handed.generator(int(rng.integers(2**31)))), rng)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        end, needed = time.process_time() + seconds, max(requests / sum(batches), effort.SHAPES_ROUNDS)
        for number in range(math.ceil(needed)):
            if number >= effort.SHAPES_ROUNDS and time.process_time() > end:
                break
            yield [drawn(number) for number in range(len(trees))]

    what = f"completions at {len(trees)} input shapes"
    return judge_rounds(what, [some.law for some in cells], rounds(), alpha=alpha, admitted=admitted)
