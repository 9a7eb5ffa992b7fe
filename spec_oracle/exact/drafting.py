"""What a drafter yields: every draft tree of positive probability, with its probability.

A *shape* is what a drafter fixes before it draws: slots, each below an earlier one. Drawn tokens turn it into
a tree: of slots with equal siblings the first has the children of all. K paths of L tokens are such a shape.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property
from itertools import pairwise
from math import comb
from typing import Final, Protocol, runtime_checkable

import numpy as np

from spec_oracle.arrays import Booleans, Integers, Number, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import to_internal
from spec_oracle.exact.errors import require_time
from spec_oracle.toy import Context, Instance, ToyModel
from spec_oracle.validation import require_whole
from verifiers import EMPTY, ROOT, Siblings
from verifiers.arrays import Array, arange_like, namespace, normalised
from verifiers.drafts import parents_of_paths
from verifiers.parts.transport_plan import multisets
from verifiers.rules.top_draft import child_law

MAX_TREES: Final = 5_000_000


@dataclass(frozen=True)
class DraftLaw:
    """All draft trees of positive probability; T trees of N places.

    ``tokens``, ``parents`` int [T, N] as in `verifiers.Drafts`; ``nodes`` int [T, N+1]: the context of the
    root and of every place, numbered by length, then lexicographically, 0 for the root and for empty places;
    ``probability`` [T], summing to one, in the arithmetic of the draft rows; ``num_paths``: K where all trees
    are K paths of one length, else None.
    """

    tokens: Integers
    parents: Integers
    nodes: Integers
    probability: Numbers
    num_paths: int | None = None

    @cached_property
    def depth(self) -> int:
        """Tokens of the longest path of any tree."""
        depths = np.zeros(self.nodes.shape, dtype=np.int64)
        for place, parent in enumerate(self.parents.T):
            above = np.take_along_axis(depths, np.maximum(parent + 1, 0)[:, None], axis=1)[:, 0]
            depths[:, place + 1] = np.where(parent == EMPTY, 0, above + 1)
        return max(1, int(depths.max()))

    @cached_property
    def fan_out(self) -> int:
        """The most drafts that follow one place, or the root, of any tree."""
        count = np.zeros(len(self.parents), dtype=np.int64)
        for parent in range(ROOT, self.parents.shape[1]):
            count = np.maximum(count, (self.parents == parent).sum(axis=1))
        return max(1, int(count.max()))


@runtime_checkable
class Drafting(Protocol):
    """How a drafter makes trees from the rows of its model."""

    @property
    def siblings(self) -> Siblings:
        """The law of siblings: what a rule must accept."""
        ...

    def law(self, instance: Instance, end: float = math.inf) -> DraftLaw:
        """Enumerate the trees on ``instance``; raises `InvalidInputError` where they do not fit.

        ``end`` is the processor time from which on `TooManyBranchesError` may be raised.
        """
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class TreeShape:
    """Slots for tokens: ``parents[i]`` is the slot above slot i, `ROOT` for the root; depth by depth.

    Raises `InvalidInputError` for a slot below a later one, and for one that is not depth by depth.

    >>> TreeShape.fan_out(2, 1).parents, TreeShape.stem(1, 2, 1).parents
    ((-1, -1, 0, 1), (-1, 0, 0))
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        for slot, above in enumerate(self.parents):
            if not ROOT <= above < slot:
                raise InvalidInputError(f"parents: slot {slot} is below {above}, expected {ROOT}..{slot - 1}")
        if any(after < before for before, after in pairwise(self.depths)):
            raise InvalidInputError(f"parents: depths are {self.depths}, expected depth by depth")

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The number of tokens on the way to each slot, its own included."""
        depths: list[int] = []
        for above in self.parents:
            depths.append(1 if above == ROOT else depths[above] + 1)
        return tuple(depths)

    @cached_property
    def num_paths(self) -> int | None:
        """K, where the shape is K paths of one length from the root; None for others."""
        count = self.parents.count(ROOT)
        return count if self == TreeShape.paths(count, self.depths[-1]) else None

    @classmethod
    def fan_out(cls, *children: int) -> "TreeShape":
        """Return the shape whose nodes at depth d have ``children[d]`` children each."""
        parents, level = list[int](), [ROOT]
        for count in children:
            start = len(parents)
            parents += [above for above in level for _ in range(require_whole(count, "children"))]
            level = list(range(start, len(parents)))
        return cls(tuple(parents))

    @classmethod
    def paths(cls, num_paths: int, length: int) -> "TreeShape":
        """Return ``num_paths`` paths that part at the root, as `Drafts.of_paths` lays them out."""
        return cls.fan_out(num_paths, *[1] * (length - 1))

    @classmethod
    def stem(cls, stem: int, num_paths: int, length: int) -> "TreeShape":
        """Return paths of ``length`` tokens that part after ``stem`` shared ones (delayed, 2602.16994)."""
        return cls.fan_out(*[1] * stem, num_paths, *[1] * (length - 1))


@dataclass(frozen=True)
class ShapedTrees:
    """Trees of a fixed ``shape`` whose ``siblings`` are drawn from the row of their node.

    A path ends early after a token of draft probability below ``least_token`` (given its context), which it
    keeps, and where no token of the next row has probability ``least_top``. Both are known before the next
    token is drawn. To drop the unlikely token itself would be lossy: what is drawn would not have law q.
    Raises `InvalidInputError` for `Siblings.BEAM`, and for `Siblings.PATHS` with a shape that branches twice.
    """

    shape: TreeShape
    siblings: Siblings = Siblings.INDEPENDENT
    least_token: Number = 0
    least_top: Number = 0

    def __post_init__(self) -> None:
        branching = {above for above in self.shape.parents if self.shape.parents.count(above) > 1}
        if self.siblings is Siblings.BEAM or (self.siblings is Siblings.PATHS and len(branching) > 1):
            raise InvalidInputError(f"siblings: {self.siblings.value} does not fit {self.shape}")

    def law(self, instance: Instance, end: float = math.inf) -> DraftLaw:
        """Enumerate the trees; see `shaped_law`."""
        require_time(end)
        return shaped_law(_rows(instance, max(1, *self.shape.depths)), self)


@cache
def draft_paths(num_paths: int, draft_length: int, siblings: Siblings) -> ShapedTrees:
    """Return the drafting of K paths of L tokens, by a law of `Siblings`."""
    return ShapedTrees(TreeShape.paths(num_paths, draft_length), siblings)


def shaped_law(levels: Sequence[Numbers], drafting: ShapedTrees) -> DraftLaw:
    """Draw slot after slot: the law of a child depends on the siblings drawn already.

    ``levels[d]`` [V^d, V] are the draft rows after d tokens. Raises `InvalidInputError` for more trees than
    are enumerated.
    """
    shape, vocab = drafting.shape, levels[0].shape[1]
    depths, starts = shape.depths, _starts(vocab, len(levels))
    ends_early = bool(drafting.least_token or drafting.least_top)
    if shape.num_paths and drafting.siblings in {Siblings.INDEPENDENT, Siblings.PATHS} and not ends_early:
        require_few_drafts(num_tuples(levels[: depths[-1]], shape.num_paths), vocab, shape)

    def confident(rows: Numbers) -> Booleans:
        """Return whether a token of each row may be drafted, bool [R, 1]."""
        return np.asarray(rows.max(axis=1, keepdims=True) >= drafting.least_top, dtype=bool)

    tokens, parents, first, nodes = (np.zeros((1, n), dtype=np.int64) for n in (0, 0, 0, 1))
    goes_on = confident(levels[0][:1])  # below the root and each slot, bool
    probability = levels[0][:1, 0] * 0 + 1
    for slot, depth in enumerate(depths):
        level = [other for other in range(len(depths)) if depths[other] == depth]
        merged = np.column_stack([np.full(len(first), ROOT), first])
        above = merged[:, [shape.parents[other] + 1 for other in level]]
        parent = above[:, slot - level[0]]
        tree = np.arange(len(parent))
        drafted = goes_on[tree, parent + 1]
        context = np.where(drafted, nodes[tree, parent + 1] - starts[depth - 1], 0)
        row, here = levels[depth - 1][context], above == parent[:, None]
        law = next_draft_law(drafting.siblings, row, tokens[:, level[0] :], here, slot - level[0])
        if ends_early:
            law = np.array(law)
            law[~drafted] *= 0
            law[~drafted, 0] += 1  # nothing is drawn: one outcome
        tree, token = np.nonzero(law > 0)
        require_few_drafts(len(tree), vocab, shape)
        probability = probability[tree] * law[tree, token]
        drafted, child = drafted[tree], context[tree] * vocab + token
        on = drafted & np.asarray(row[tree, token] >= drafting.least_token, dtype=bool)
        if depth < len(levels):
            on &= confident(levels[depth][child])[:, 0]
        tokens = np.column_stack([tokens[tree], token])
        parents = np.column_stack([parents[tree], np.where(drafted, parent[tree], EMPTY)])
        nodes = np.column_stack([nodes[tree], np.where(drafted, child + starts[depth], 0)])
        goes_on = np.column_stack([goes_on[tree], on])
        first = np.column_stack([first[tree], (nodes[:, 1:] == nodes[:, -1:]).argmax(axis=1)])
    return DraftLaw(tokens, parents, nodes, probability, None if ends_early else shape.num_paths)


def multiset_law(levels: Sequence[Numbers], drafting: ShapedTrees) -> DraftLaw:
    """Enumerate K paths up to their order: up to K! fewer trees, for code that ignores the order.

    Every multiset of independent paths comes once, sorted, with the probability of all its orders; other
    draftings, whose paths depend on each other, are enumerated by `shaped_law`.
    """
    shape, vocab = drafting.shape, levels[0].shape[1]
    paths, independent = shape.num_paths, {Siblings.INDEPENDENT, Siblings.PATHS}
    if (
        paths is None
        or drafting != ShapedTrees(shape, drafting.siblings)
        or drafting.siblings not in independent
    ):
        return shaped_law(levels, drafting)
    single = shaped_law(levels, draft_paths(1, shape.depths[-1], drafting.siblings))
    require_few_drafts(comb(len(single.tokens) + paths - 1, paths), vocab, shape)
    chosen, orders = zip(*multisets(len(single.tokens), paths), strict=True)
    drawn = np.array(chosen)
    tokens, nodes = single.tokens[drawn], single.nodes[drawn][:, :, 1:]

    def by_depth(values: Integers) -> Integers:
        return values.transpose(0, 2, 1).reshape(len(drawn), -1)

    return DraftLaw(
        by_depth(tokens),
        parents_of_paths(tokens),
        np.column_stack([np.zeros(len(drawn), dtype=np.int64), by_depth(nodes)]),
        single.probability[drawn].prod(axis=1) * np.array(orders),
        paths,
    )


@dataclass(frozen=True)
class LikeliestNodes:
    """The ``count`` contexts of up to L tokens of highest draft probability: a dynamic tree (2406.16858).

    Of equally likely contexts the shorter, then the lexicographically smaller goes first. One tree.
    """

    count: int
    siblings: Siblings = Siblings.TOP

    def law(self, instance: Instance, end: float = math.inf) -> DraftLaw:
        """Return the one tree, its places ordered by length, then by draft probability."""
        require_time(end)
        mass: dict[Context, Number] = {(): _rows(instance, 1)[0][0, 0] * 0 + 1}
        for context in list(np.ndindex(*(instance.vocab_size,) * instance.draft_length)):
            for upto in range(1, len(context) + 1):
                row = instance.draft.conditional(context[: upto - 1])
                mass[context[:upto]] = mass[context[: upto - 1]] * row[context[upto - 1]]
        ranked = sorted(mass, key=lambda node: (-mass[node], len(node), node))[1 : self.count + 1]
        places = sorted(ranked, key=len)  # stable
        return _trees_of({tuple(places): mass[()]}, instance, self.count)


@dataclass(frozen=True)
class StochasticBeam:
    """The ``width`` prefixes of each length that a stochastic beam search finds (RSD-S, 2402.14160).

    Whole paths come in the order of a draw without replacement; at every length the first ``width`` distinct
    prefixes are the beam. That is the law of prefixes with the highest perturbed log-probabilities.
    """

    width: int
    siblings: Siblings = Siblings.BEAM

    def law(self, instance: Instance, end: float = math.inf) -> DraftLaw:
        """Let whole paths arrive one by one; those that would change no beam are passed over."""
        length, vocab = instance.draft_length, instance.vocab_size
        chances = {path: instance.draft.probability(path) for path in np.ndindex(*(vocab,) * length)}
        prefixes = {
            path: tuple(path[:end] for end in range(1, length + 1))
            for path, chance in chances.items()
            if chance > 0
        }
        done: dict[tuple[Context, ...], Number] = defaultdict(int)
        states: dict[tuple[tuple[Context, ...], ...], Number] = {((),) * length: 1}
        while states:
            require_few_drafts(len(states) + len(done), vocab)
            following: dict[tuple[tuple[Context, ...], ...], Number] = defaultdict(int)
            for beams, mass in states.items():
                require_time(end)
                if all(len(beam) == self.width for beam in beams):
                    done[sum(beams, ())] += mass
                    continue
                after = {path: self._after(beams, every) for path, every in prefixes.items()}
                left = {path: chances[path] for path, grown in after.items() if grown != beams}
                if not left:
                    done[sum(beams, ())] += mass
                total = sum(left.values())
                for path, chance in left.items():
                    following[after[path]] += mass * (chance / total)
            states = following
        return _trees_of(done, instance, self.width * length)

    def _after(
        self, beams: tuple[tuple[Context, ...], ...], prefixes: tuple[Context, ...]
    ) -> tuple[tuple[Context, ...], ...]:
        """Return the beams of every length once the path with these prefixes has arrived."""
        return tuple(
            beam if prefix in beam or len(beam) == self.width else (*beam, prefix)
            for beam, prefix in zip(beams, prefixes, strict=True)
        )


def num_tuples(levels: Sequence[Numbers], num_paths: int) -> int:
    """Return how many tuples of independent paths have positive probability."""
    reached = np.ones(1, dtype=bool)
    for level in levels:
        reached = (reached[:, None] & np.asarray(level > 0, dtype=bool)).reshape(-1)
    return int(int(reached.sum()) ** num_paths)


def next_draft_law(siblings: Siblings, rows: Array, drawn: Array, here: Array, slot: int) -> Array:
    """Return the law [T, V] of the next token of a ``slot`` given its node's row and earlier siblings.

    ``drawn`` int [T, slot] are the tokens that earlier slots took at this depth; ``here`` bool [T, K] marks
    the slots below this node. Arrays of any library. Raises `InvalidInputError` for `Siblings.BEAM`.
    """
    earlier = here[:, :slot].sum(1)
    if siblings in {Siblings.INDEPENDENT, Siblings.PATHS}:
        return rows
    if siblings is Siblings.DISTINCT:
        return _without_replacement(rows, drawn, here[:, :slot])
    if siblings is Siblings.TOP:
        return child_law(rows, earlier, earlier + 2)
    if siblings is Siblings.BEAM:
        raise InvalidInputError("siblings: those of a beam are not drawn one by one; see StochasticBeam")
    return child_law(rows, earlier, here.sum(1))


def _without_replacement(rows: Array, drawn: Array, sibling: Array) -> Array:
    """Return q restricted to the tokens that this round has not drawn yet, renormalised."""
    xp = namespace(rows)
    tokens = arange_like(drawn, rows.shape[1])
    counts = xp.sum(xp.astype((drawn[:, :, None] == tokens) & sibling[:, :, None], xp.int64), axis=1)
    possible = rows > 0
    beyond = counts * 0 + (drawn.shape[1] + 1)
    fewest = xp.min(xp.where(possible, counts, beyond), axis=1, keepdims=True)
    return normalised(xp.where(possible & (counts == fewest), rows, rows * 0))


def in_rationals(instance: Instance) -> Instance:
    """Return the instance in the fastest rationals, which draft laws are enumerated in."""
    target, draft = (
        ToyModel(model.vocab_size, tuple(map(to_internal, model.levels)))
        for model in (instance.exact.target, instance.exact.draft)
    )
    return replace(instance, target=target, draft=draft)


def _trees_of(trees: dict[tuple[Context, ...], Number], instance: Instance, places: int) -> DraftLaw:
    """Return trees given by the contexts of their places, parents first, with their masses."""
    vocab = instance.vocab_size
    starts = _starts(vocab, instance.draft_length)
    tokens, parents = np.zeros((len(trees), places), dtype=np.int64), np.full((len(trees), places), EMPTY)
    nodes = np.zeros((len(trees), places + 1), dtype=np.int64)
    for tree, contexts in enumerate(trees):
        for place, context in enumerate(contexts):
            tokens[tree, place] = context[-1]
            parents[tree, place] = contexts.index(context[:-1]) if context[:-1] else ROOT
            number = sum(token * vocab**power for power, token in enumerate(reversed(context)))
            nodes[tree, place + 1] = starts[len(context)] + number
    probability = np.array(list(trees.values()), dtype=instance.draft.levels[0].dtype)
    return DraftLaw(tokens, parents, nodes, probability)


def _starts(vocab_size: int, length: int) -> Integers:
    """Return the number of the first context of each length, up to ``length`` tokens."""
    return np.cumsum([0, *(vocab_size**depth for depth in range(length + 1))])


def _rows(instance: Instance, depth: int) -> Sequence[Numbers]:
    """Return the draft's rows after 0, ..., depth - 1 tokens."""
    if depth > instance.draft_length:
        deep = f"{depth} tokens deep, the instance has draft_length {instance.draft_length}"
        raise InvalidInputError(f"shape: {deep}")
    return [instance.draft.rows(length) for length in range(depth)]


def require_few_drafts(count: int, vocab_size: int, shape: TreeShape | None = None) -> None:
    """Raise `InvalidInputError` for more trees than are enumerated."""
    if count <= MAX_TREES:
        return
    size = f"vocab_size {vocab_size}"
    if shape is not None:
        paths = f"num_paths {shape.num_paths}" if shape.num_paths else f"{len(shape.parents)} drafted tokens"
        size += f", draft_length {shape.depths[-1]}, {paths}"
    raise InvalidInputError(
        f"instance: {Decimal(count):.3g} draft trees or more, at most {MAX_TREES:,} are enumerated ({size})"
    )
