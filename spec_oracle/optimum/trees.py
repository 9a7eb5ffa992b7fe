"""Nodes and draft trees of an instance: what the optima are computed on."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers, Number, Numbers
from spec_oracle.exact.arithmetic import to_fractions, to_internal
from spec_oracle.exact.call import paths_of
from spec_oracle.exact.drafting import Drafting, in_rationals
from spec_oracle.toy import Context, Instance, ToyModel
from spec_oracle.toy.size import require_memory
from verifiers import Siblings
from verifiers.parts.transport_plan import InfeasibleTransportError, transport_plan


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
    law = (paths_of(instance, drafting) if isinstance(drafting, Siblings) else drafting).law(numbers)
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
