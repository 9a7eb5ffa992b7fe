"""Where to stop on each random draft tree, for a wanted law of the stop node: a transport plan in integers.

A verifier stops at a node of the draft tree it was given. It can have every law of the stop node for which
the mass of each tree can be split over the nodes on that tree so that each node receives its stop mass: a
transport from trees to nodes, feasible iff no set of nodes wants more than the trees that touch it weigh.

The trees of independent drafts are `multisets`: every one once, with the number of orders in which it comes.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verifiers.errors import InvalidInputError

ROUNDING = 1e-12
"""Share of the total mass by which float totals that should agree may differ."""


class InfeasibleTransportError(InvalidInputError):
    """The trees cannot carry the stop masses.

    ``overfull``: sets of nodes, each wanting more mass than the trees that touch it weigh; empty where only
    the totals disagree.
    """

    def __init__(self, message: str, overfull: tuple[frozenset[int], ...] = ()) -> None:
        super().__init__(message)
        self.overfull = overfull


def transport_plan(
    stop_masses: NDArray[Any], trees: Sequence[NDArray[np.int64]], tree_probs: NDArray[Any]
) -> list[NDArray[Any]]:
    """Split the mass of every tree over the nodes on it so that every node receives its stop mass.

    ``stop_masses`` [N] is the mass wanted at each node; ``trees[t]`` int [n_t] are the nodes on tree t, each
    once; ``tree_probs`` [T] their masses. Returns one array [n_t] per tree, the mass that stops at each of
    its nodes; divided by ``tree_probs[t]`` it is the law of the stop node given the tree.

    Object arrays of rationals give plans in `Fraction`, exact. Floats are taken as the dyadic rationals they
    are and the flow is exact too; what their totals differ by, at most `ROUNDING` of the whole, stays with
    its tree, at the node that takes most of it, or wants most where none takes any. A stop mass that is a
    rounding residue of 0 is carried like any other: clear it before.

    Raises `InfeasibleTransportError` where no plan exists.

    >>> trees = [np.array([0, 1]), np.array([0, 2])]
    >>> [row.tolist() for row in transport_plan(np.array([0.5, 0.25, 0.25]), trees, np.array([0.5, 0.5]))]
    [[0.25, 0.25], [0.25, 0.25]]
    """
    exact = stop_masses.dtype == object and tree_probs.dtype == object
    rounding = 0 if exact else ROUNDING
    numbers, scale = _as_integers([*stop_masses, *tree_probs])
    nodes = len(stop_masses)
    flow = _Flow(numbers[:nodes], numbers[nodes:], [tree.tolist() for tree in trees])
    flow.maximise()
    tolerance = Fraction(rounding) * sum(flow.weights)
    if sum(flow.missing) > tolerance:
        raise _overfull_error(flow, scale)
    if sum(flow.spare) > tolerance:
        surplus = float(Fraction(sum(flow.spare), scale))
        raise InfeasibleTransportError(f"stop_masses: sum to {surplus:.6g} less than tree_probs")
    flow.place_spare()
    if exact:
        return [np.array([Fraction(mass, scale) for mass in row], dtype=object) for row in flow.rows()]
    return [np.array([mass / scale for mass in row]) for row in flow.rows()]


def _as_integers(numbers: Sequence[Any]) -> tuple[list[int], int]:
    """Return the numbers times a common scale, and the scale; negative rounding residue becomes zero."""
    ratios = [number.as_integer_ratio() for number in numbers]
    scale = math.lcm(*(int(below) for _, below in ratios))
    return [max(0, int(above) * (scale // int(below))) for above, below in ratios], scale


def _overfull_error(flow: "_Flow", scale: int) -> InfeasibleTransportError:
    """Name the node sets that want too much, with figures for the worst."""
    overfull = {flow.closure(node) for node, missing in enumerate(flow.missing) if missing}
    excess, nodes = max((sum(flow.missing[node] for node in nodes), sorted(nodes)) for nodes in overfull)
    wanted = float(Fraction(sum(flow.wanted[node] for node in nodes), scale))
    short = float(Fraction(excess, scale))
    return InfeasibleTransportError(
        f"stop_masses: nodes {nodes} want {wanted:.12g}, {short:.6g} more than the trees touching them weigh",
        tuple(sorted(overfull, key=sorted)),
    )


class _Flow:
    """A maximum flow from trees to nodes by Dinic's algorithm, seen from the nodes that still miss mass.

    A node is at distance 1 if a tree on it has mass to spare, at distance k+1 if a tree on it stops mass at a
    node of distance k, which can be moved here because that node finds a replacement. Each round moves mass
    only from one distance to the next, as much as goes; so distances grow from round to round, and with at
    most N of them it ends, whatever the numbers.
    """

    def __init__(self, wanted: list[int], weights: list[int], trees: list[list[int]]) -> None:
        self.wanted, self.weights, self.trees = wanted, weights, trees
        self.missing = list(wanted)
        self.spare = list(weights)
        self.carried: list[dict[int, int]] = [dict.fromkeys(tree, 0) for tree in trees]
        self.touching: list[list[int]] = [[] for _ in wanted]
        for t, tree in enumerate(trees):
            for node in tree:
                self.touching[node].append(t)
        self._scarcest_first = sorted(range(len(wanted)), key=lambda node: len(self.touching[node]))

    def maximise(self) -> None:
        """Move mass until no node can get more."""
        while True:
            self._distance = self._distances()
            self._next = [0] * len(self.wanted)
            moved = 0
            for node in self._scarcest_first:
                if self.missing[node] and self._distance[node]:
                    got = self._pull(node, self.missing[node])
                    self.missing[node] -= got
                    moved += got
            if not moved:
                return

    def _distances(self) -> list[int]:
        """Return the distance of every node from spare mass; 0 where none can be had."""
        distance = [0] * len(self.wanted)
        seen = [spare > 0 for spare in self.spare]
        queue: deque[int] = deque()

        def reach(tree: int, steps: int) -> None:
            for node in self.trees[tree]:
                if not distance[node]:
                    distance[node] = steps
                    queue.append(node)

        for t, spare in enumerate(self.spare):
            if spare:
                reach(t, 1)
        while queue:
            node = queue.popleft()
            for t in self.touching[node]:
                if not seen[t] and self.carried[t][node]:
                    seen[t] = True
                    reach(t, distance[node] + 1)
        return distance

    def _pull(self, node: int, amount: int) -> int:
        """Bring up to ``amount`` more mass to ``node``; return how much came.

        A tree that gave all it could in this round is not asked again (``_next``).
        """
        got = 0
        while self._next[node] < len(self.touching[node]):
            t = self.touching[node][self._next[node]]
            got += self._pull_from(t, node, amount - got)
            if got == amount:
                break
            self._next[node] += 1
        return got

    def _pull_from(self, t: int, node: int, amount: int) -> int:
        carried = self.carried[t]
        if self._distance[node] == 1:
            got = min(amount, self.spare[t])
            self.spare[t] -= got
            carried[node] += got
            return got
        got, nearer = 0, self._distance[node] - 1
        for donor, mass in carried.items():
            if mass and self._distance[donor] == nearer and got < amount:
                moved = self._pull(donor, min(amount - got, mass))
                carried[donor] -= moved
                carried[node] += moved
                got += moved
        return got

    def closure(self, node: int) -> frozenset[int]:
        """Return the nodes that the trees touching ``node`` serve, and so on: at a maximum, a tight set.

        Of a node that misses mass the set is overfull: the trees that touch it spend all they have inside.
        """
        nodes, pending = {node}, [node]
        while pending:
            for t in self.touching[pending.pop()]:
                for other, mass in self.carried[t].items():
                    if mass and other not in nodes:
                        nodes.add(other)
                        pending.append(other)
        return frozenset(nodes)

    def place_spare(self) -> None:
        """Let mass that rounding left with a tree stop where most of its mass stops, or is wanted most."""
        for carried, spare in zip(self.carried, self.spare, strict=True):
            if spare:
                carried[max(carried, key=lambda node: (carried[node], self.wanted[node]))] += spare

    def rows(self) -> list[list[int]]:
        """Return the mass at each tree's nodes, in the tree's order."""
        return [list(carried.values()) for carried in self.carried]


def multisets(num_outcomes: int, size: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield every sorted tuple of ``size`` outcomes 0..num_outcomes-1, and its number of distinct orders."""
    for outcomes in combinations_with_replacement(range(num_outcomes), size):
        repeats = prod(factorial(outcomes.count(outcome)) for outcome in set(outcomes))
        yield outcomes, factorial(size) // repeats
