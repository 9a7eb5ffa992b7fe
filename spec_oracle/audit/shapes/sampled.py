"""Samples at shapes: of code whose random numbers cannot be traced, and against code that knows it is traced.

Texts differ by where they leave the tree of drafts: after which context, and by which token, the likeliest
ones one by one and the others by their place in the vocabulary. Continued by the target, texts have these
cells with the target's probabilities, whatever the rule.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context as CheckContext
from spec_oracle.audit.experiment import Effort, Experiment, indexed, numbered, sampled
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.shapes.axes import AXES, Shape
from spec_oracle.audit.shapes.covered import Covered
from spec_oracle.audit.shapes.design import design
from spec_oracle.audit.shapes.trees import tree_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import Emissions, SamplerCode
from spec_oracle.exact.draft_tree import DraftTree
from spec_oracle.toy import Context
from verifiers import Paths

SHAPES_REQUESTS: Final = 2_000  # Samples at one shape, at least, as long as there are enough for one.
SHAPES_LEAST_SAMPLES: Final = 500  # Samples without which a shape does not count as tried.
# Shapes that are sampled: those of the fewest numbers, which make for the most samples.
SHAPES_MOST_SAMPLED: Final = 12
SHAPES_LARGE: Final = 4  # Of these, shapes up to the largest.
SHAPES_ROUNDS: Final = 4  # Looks at the samples.
SHAPES_SAMPLED_VOCABULARY: Final = 1_000  # Tokens up to which code that cannot be traced is sampled there.

Place: TypeAlias = tuple[Shape, DraftTree]

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


def types_of(code: SamplerCode, dtypes: Sequence[str] = AXES["dtype"]) -> tuple[str, ...]:
    """Return the number types that the library of the code has."""
    return tuple(dtype for dtype in dtypes if code.array == "torch" or dtype != "bfloat16")


def sampled_shapes(
    subject: CalledAsSampler, context: CheckContext, covered: Covered, requests: float, seconds: float
) -> CheckResult:
    """Sample uninstrumented code at some of the shapes that were traced, or else at some of the design.

    About so many ``requests`` are verified, within ``seconds``. Where they have many numbers, few are in a
    call: every shape gets `SHAPES_ROUNDS` calls at least.
    """
    places = {str(place[0]): place for place in _chosen(subject, context, covered, requests)}
    most = int(requests / len(places) / SHAPES_ROUNDS)
    sizes = {
        what: max(1, min(most, _MOST_NUMBERS * shape.batch // shape.numbers))
        for what, (shape, _) in places.items()
    }
    rng = context.stream("sampler/shapes/samples")
    each = [_experiment(what, subject.code, place, sizes[what], rng) for what, place in places.items()]
    more = max(requests / sum(sizes.values()) / SHAPES_ROUNDS - 1, 0)
    looks = Effort(math.inf, SHAPES_ROUNDS * most, turns=math.ceil(more * len(places)))
    what = f"completions at {len(places)} input shapes"
    found = sampled(each, replace(context, budget=seconds), looks, what=what)
    if found.status is Status.PASSED:
        least = SHAPES_LEAST_SAMPLES / SHAPES_ROUNDS
        covered.sampled = [shape for what, (shape, _) in places.items() if sizes[what] >= least]
    return found


def _experiment(
    what: str, code: SamplerCode, place: Place, size: int, rng: np.random.Generator
) -> Experiment:
    """Return the experiment of a request at a shape; some calls of so many requests are one look at it."""
    cells = TreeCells(place[1])

    def many(_: int) -> NDArray[np.int64]:
        calls = (_drawn(code, place, size, rng) for _ in range(SHAPES_ROUNDS))
        return np.concatenate([cells.of(found, rng) for found in calls])

    unnamed = lambda: replace(indexed(cells.law), outcomes=())  # noqa: E731
    return numbered(what, "a completion", cells.law, many, binned=unnamed)


def _drawn(code: SamplerCode, place: Place, count: int, rng: np.random.Generator) -> Emissions:
    """Verify so many independent requests of a shape in one call."""
    shape, tree = place
    tuples = list(tree.likely)
    chosen = rng.choice(len(tuples), size=count, p=chances_of(tree))
    several = [tree.drafts(paths) for paths in tuples]
    names = ("tokens", "draft_probs", "target_probs")
    drafts = Paths(*(np.concatenate([getattr(one, name) for one in several])[chosen] for name in names))
    handed = replace(code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)
    return handed(drafts, handed.generator(int(rng.integers(2**31))))


def _chosen(
    subject: CalledAsSampler, context: CheckContext, covered: Covered, requests: float
) -> list[Place]:
    """Return small shapes that were traced and a few large ones, and some that were not traced.

    Where nothing was traced, they are small ones of a design.
    """
    traced = [(one.shape, tree_of(one.shape, one.seed, subject.drafting)) for one in covered.shapes]
    if not (places := _smallest_first(traced)):
        small = tuple(size for size in AXES["vocab_size"] if size <= SHAPES_SAMPLED_VOCABULARY)
        dtypes = types_of(subject.code, context.shapes.dtypes)[:1]
        axes = {"vocab_size": small, "dtype": dtypes, "num_paths": (subject.num_paths,)}
        few = design(**{**axes, **context.shapes.only})
        first = [(shape, tree_of(shape, context.seed, subject.drafting)) for shape in few.shapes]
        places = _smallest_first(first[: few.of_values])
    count = int(min(max(requests // SHAPES_REQUESTS, 1), SHAPES_MOST_SAMPLED))
    small_ones = max(count - SHAPES_LARGE, 1)
    not_traced = _smallest_first(covered.not_traced)
    large_ones = _spread(places[small_ones:], count - small_ones)
    return [*places[:small_ones], *large_ones, *_spread(not_traced, SHAPES_MOST_SAMPLED)]


def _smallest_first(places: Sequence[Place]) -> list[Place]:
    """Return the shapes without optional arguments, by the size of a request.

    Brief ones come last: with one open position, the bonus maybe, they show little.
    """
    plain = (one for one in places if not one[0].options)
    return sorted(plain, key=lambda place: (place[0].is_brief, place[0].numbers // place[0].batch))


def _spread(places: Sequence[Place], count: int) -> list[Place]:
    """Return at most ``count`` shapes, the last ones and others evenly before them."""
    steps = np.linspace(len(places) - 1, 0, min(count, len(places)))
    return [places[round(step)] for step in steps.tolist()]
