"""The drafts of an instance, on which optima are computed: draft trees one by one, or K independent paths.

Independent paths are represented by the law of one path that is selected among them. Every verifier selects a
path that holds its accepted prefix. A law s of the selected path can be had if and only if no set A of paths
gets more than the probability that one of the K paths lies in it,

    s(A) <= H(q(A)),      H(a) = 1 - (1 - a)^K,                                                   (capacity)

with s(all) = 1 (docs/theory.md, "Budgets and the optimum"). V^L numbers, whatever K is.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers, Number, Numbers
from spec_oracle.exact.arithmetic import to_fractions, to_internal
from spec_oracle.exact.call import drafting_on
from spec_oracle.exact.drafting import Drafting, in_rationals
from spec_oracle.toy import Context, Instance, ToyModel
from spec_oracle.toy.model import require_memory
from verifiers import Siblings
from verifiers.parts.transport_plan import InfeasibleTransportError, transport_plan

SAME_RATIO = 1e-12
"""Float ratios that differ by less, relatively, are one level."""


@dataclass(frozen=True)
class PrefixTree:
    """All contexts of up to ``depth`` tokens, numbered by length, then lexicographically from the root, 0."""

    vocab_size: int
    depth: int

    @cached_property
    def starts(self) -> Integers:
        """Number of the first node of each length, int [depth + 2]; the last entry is the number of nodes."""
        return np.cumsum([0, *(self.vocab_size**length for length in range(self.depth + 1))])

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """The context of each node."""
        tokens = range(self.vocab_size)
        return tuple(node for length in range(self.depth + 1) for node in product(tokens, repeat=length))

    @cached_property
    def parent(self) -> Integers:
        """The parent of each node, int [N]; the root is its own."""
        levels = [
            self.starts[length - 1] + np.arange(self.vocab_size**length) // self.vocab_size
            for length in range(1, self.depth + 1)
        ]
        return np.concatenate([[0], *levels])

    @property
    def subtrees(self) -> Booleans:
        """For each node, bool [N, N], which nodes are it or below it."""
        below = np.eye(len(self.contexts), dtype=bool)
        for node, above in reversed(list(enumerate(self.parent))):
            below[above] |= below[node]
        return below

    def stop_masses(self, reached: Numbers) -> Numbers:
        """Return e(v) = w(v) - sum over children of w, given the masses w [N] that go beyond the nodes."""
        stop = reached.copy()
        np.subtract.at(stop, self.parent[1:], reached[1:])
        return stop

    def table(self, values: Numbers) -> dict[Context, Fraction]:
        """Return rational ``values`` [N] by context."""
        return dict(zip(self.contexts, to_fractions(values), strict=True))

    def by_path(self, values: Numbers) -> dict[Context, Fraction]:
        """Return rational ``values`` [V^L] of whole paths by path."""
        return dict(zip(self.contexts[self.starts[-2] :], to_fractions(values), strict=True))

    def joint(self, model: ToyModel) -> Numbers:
        """Return the joint probability of each node, [N], in fast rationals (see `exact.arithmetic`)."""
        require_memory(self.vocab_size, max(self.depth - 1, 0), exact=True)
        laws = [model.joint(0)]
        for length in range(self.depth):
            laws.append((laws[-1][:, None] * model.rows(length)).reshape(-1))
        return to_internal(np.concatenate(laws))


@dataclass(frozen=True)
class DistinctTrees:
    """The draft trees that can occur; draws that give the same set of prefixes are one tree.

    ``paths[t]`` are the distinct paths to the leaves of tree t in lexicographic order, ``nodes[t]`` int
    [n_t] its nodes in ascending order, ``probability`` [T] its mass in fast rationals.
    """

    paths: tuple[tuple[Context, ...], ...]
    nodes: tuple[Integers, ...]
    probability: Numbers
    prefixes: PrefixTree

    @cached_property
    def _touches(self) -> Booleans:
        touches = np.zeros((len(self.nodes), len(self.prefixes.parent)), dtype=bool)
        for tree, nodes in zip(touches, self.nodes, strict=True):
            tree[nodes] = True
        return touches

    def mass_touching(self, chosen: Booleans) -> Number:
        """Return the mass of the trees with at least one of the ``chosen`` bool [N] nodes on them."""
        return self.probability[self._touches[:, chosen].any(axis=1)].sum()

    def expected_highest(self, potentials: Floats) -> float:
        """Return the mean of the largest of ``potentials`` [N] on the draft tree, in floats."""
        starts = np.cumsum([0, *(len(nodes) for nodes in self.nodes[:-1])])
        highest = np.maximum.reduceat(potentials[np.concatenate(self.nodes)], starts)
        return float(self.probability.astype(np.float64) @ highest)

    def serve(self, reached: Numbers) -> tuple[Booleans, list[Numbers]]:
        """Return node sets, bool [n, N], that want too much and, where n = 0, each tree's stop masses [n_t].

        ``reached`` [N] are exact masses that are to go beyond each node, stop masses nonnegative.
        """
        stop = self.prefixes.stop_masses(reached)
        try:
            plan = transport_plan(stop, self.nodes, self.probability)
        except InfeasibleTransportError as error:
            return np.array([np.isin(np.arange(len(stop)), list(nodes)) for nodes in error.overfull]), []
        return ~np.eye(len(stop), dtype=bool)[:0], plan


def trees_of(instance: Instance, drafting: Siblings | Drafting) -> DistinctTrees:
    """Enumerate the draft trees of an exact instance: K paths by a law of siblings, or other trees."""
    numbers = in_rationals(instance)
    law = drafting_on(instance, drafting).law(numbers)
    sets, tree = np.unique(_as_sets(law.nodes), axis=0, return_inverse=True)
    probability = np.full(len(sets), law.probability[0] * 0)
    np.add.at(probability, tree.reshape(-1), law.probability)
    prefixes = PrefixTree(instance.vocab_size, instance.draft_length)
    nodes = [np.unique(row) for row in sets]
    leaves = [np.setdiff1d(one, prefixes.parent[one[one > 0]]) for one in nodes]
    return DistinctTrees(
        paths=tuple(tuple(sorted(prefixes.contexts[leaf] for leaf in named)) for named in leaves),
        nodes=tuple(nodes),
        probability=to_internal(probability),
        prefixes=prefixes,
    )


def _as_sets(nodes: Integers) -> Integers:
    """Bring rows [T, N] that hold the same set to the same form: sorted, repeats replaced by the smallest."""
    ordered = np.sort(nodes, axis=1)
    repeated = np.zeros(ordered.shape, dtype=bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return np.sort(np.where(repeated, ordered[:, :1], ordered), axis=1)


@dataclass(frozen=True)
class IndependentPaths:
    """``num_paths`` independent paths of draft probability ``draft`` [N] at the nodes of ``prefixes``.

    Floats, or exact rationals in an object array. ``reached`` [N] below is a mass for every node.
    """

    prefixes: PrefixTree
    draft: Numbers
    num_paths: int

    @property
    def leaves(self) -> Numbers:
        """Draft probability of each whole path, [V^L]."""
        return self.draft[self.prefixes.starts[-2] :]

    def hit(self, mass: Number) -> Number:
        """Return H: the probability that one of the paths is in a set of this draft probability."""
        if self.draft.dtype == object:
            return 1 - (1 - mass) ** self.num_paths
        return -np.expm1(self.num_paths * np.log1p(-np.minimum(mass, 1 - 2.0**-53)))

    @property
    def floats(self) -> "IndependentPaths":
        """The same in floats."""
        return replace(self, draft=self.draft.astype(np.float64))

    def mass_touching(self, chosen: Booleans) -> Number:
        """Return the probability that one of the paths passes one of the ``chosen`` bool [N] nodes."""
        under = chosen.copy()
        for node, above in enumerate(self.prefixes.parent):
            under[node] |= under[above]
        return self.hit(self.leaves[under[self.prefixes.starts[-2] :]].sum())

    def expected_highest(self, potentials: Floats) -> float:
        """Return the mean of the largest of ``potentials`` [N] on the draft tree, in floats."""
        highest = potentials.copy()
        for node, above in enumerate(self.prefixes.parent):
            highest[node] = max(highest[node], highest[above])
        of_path = highest[self.prefixes.starts[-2] :]
        order = np.argsort(-of_path)
        return float(of_path[order] @ np.diff(self.hit(np.cumsum(self.leaves[order])), prepend=0.0))

    def even_ratios(self, reached: Numbers) -> Numbers:
        """Return s/q [V^L] of the most even law s that passes every node v with at least ``reached[v]``.

        From the leaves up, what a node still misses is poured over the paths through it where s/q is lowest.
        If any law with those lower bounds has (capacity), then this one has: its level sets {s/q >= t} hold
        just what disjoint nodes want, and for a given s the fullest sets are level sets.
        """
        ratio: Numbers = np.zeros_like(self.leaves)
        for length in range(self.prefixes.depth, -1, -1):
            first, last = self.prefixes.starts[length : length + 2]
            ground = ratio.reshape(last - first, -1)
            width = self.leaves.reshape(ground.shape)
            missing = reached[first:last] - (ground * width).sum(axis=1)
            order = np.argsort(ground, axis=1, kind="stable")
            height, width = np.take_along_axis(ground, order, 1), np.take_along_axis(width, order, 1)
            area = np.cumsum(width, axis=1)
            # The surface if the lowest 1, 2, ... paths are under water: right where it is below the next one.
            surface = (missing[:, None] + np.cumsum(height * width, axis=1)) / np.where(area > 0, area, 1)
            higher = np.concatenate([height[:, 1:], np.full((last - first, 1), np.inf)], axis=1)
            wet = np.argmax(np.asarray((area > 0) & (surface <= higher), dtype=bool), axis=1)[:, None]
            poured = np.where(missing[:, None] > 0, np.take_along_axis(surface, wet, 1), missing[:, None] * 0)
            ratio = np.where(ground < poured, poured, ground).reshape(-1)
        return ratio

    def levels(self, ratio: Numbers) -> "PathLevels":
        """Return the level sets of s/q, given as ``ratio`` [V^L]."""
        order = np.argsort(-ratio, kind="stable")
        mass = np.cumsum(self.leaves[order])
        return PathLevels(order, np.cumsum((ratio * self.leaves)[order]), self.hit(mass), _last(ratio[order]))

    def within_capacity(self, ratio: Numbers) -> Numbers:
        """Return a law [V^L] with (capacity) next to s = ``ratio`` times q: s itself where it has it.

        Along the falling order of s/q both the sums of s and H are concave in the sums of q; so is the
        smaller of the two, and then no set is fuller than those along the order.
        """
        levels = self.levels(ratio)
        sums = np.minimum(levels.wanted, levels.allowed)
        sums[-1] = levels.allowed[-1]
        law: Numbers = np.empty_like(sums)
        law[levels.order] = np.diff(sums, prepend=sums[:1] * 0)
        return law

    def serve(self, reached: Numbers) -> tuple[Booleans, Numbers]:
        """Return node sets, bool [n, N], that want too much and, where n = 0, the law [V^L] that serves all.

        ``reached`` [N] as in `DistinctTrees.serve`. A set holds with each node all below it.
        """
        ratio = self.even_ratios(reached)
        law, levels = ratio * self.leaves, self.levels(ratio)
        overfull = levels.ends & np.asarray(levels.wanted > levels.allowed, dtype=bool)
        # Only what the draft never reaches is left without.
        unreached = np.asarray(reached > self.passed(law), dtype=bool)
        return np.concatenate(
            [self.prefixes.subtrees[unreached], self.closed(levels, np.flatnonzero(overfull))]
        ), law

    def closed(self, levels: "PathLevels", ends: Integers) -> Booleans:
        """Return, bool [m, N], for each of the ``ends`` [m] the nodes all of whose paths come no later."""
        place = np.argsort(levels.order)
        inside = [place <= ends[:, None]]
        for length in range(self.prefixes.depth, 0, -1):
            below = inside[-1].reshape(-1, self.prefixes.vocab_size ** (length - 1), self.prefixes.vocab_size)
            inside.append(np.asarray(below.all(axis=-1)))
        return np.concatenate(inside[::-1], axis=1)

    def passed(self, law: Numbers) -> Numbers:
        """Return, for each node [N], the mass of the paths through it under a ``law`` [V^L] of the path."""
        levels = [law]
        for _ in range(self.prefixes.depth):
            levels.append(levels[-1].reshape(-1, self.prefixes.vocab_size).sum(axis=1))
        return np.concatenate(levels[::-1])

    def budgets_under(self, law: Numbers, target: Numbers, ceiling: Integers) -> Numbers:
        """Return the largest c(v) [N] with c(v) <= c(ceiling of v) and p(v) c(v) <= s(v), s the ``law``."""
        most = np.divide(self.passed(law), target, out=np.ones_like(target), where=target > 0)
        budgets = np.ones_like(target)
        for first, last in pairwise(self.prefixes.starts[1:]):
            budgets[first:last] = np.minimum(budgets[ceiling[first:last]], most[first:last])
        return budgets


@dataclass(frozen=True)
class PathLevels:
    """Paths by falling s/q, in ``order`` [n]; ``wanted``, ``allowed`` [n]: s and H(q) of the first 1, 2, ...

    ``ends`` bool [n] marks the last path of each level but the lowest, whose sets hold every path.
    """

    order: Integers
    wanted: Numbers
    allowed: Numbers
    ends: Booleans


def _last(falling: Numbers) -> Booleans:
    """Mark where ``falling`` [n] falls at the next position; never the end."""
    rounding = 0 if falling.dtype == object else SAME_RATIO
    falls = falling[1:] < falling[:-1] * (1 - rounding)
    return np.append(np.asarray(falls, dtype=bool), False)
