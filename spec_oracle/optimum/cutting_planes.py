"""The best budgets that random draft trees allow: an exact cutting-plane method with max-flow separation.

The linear program (docs/theory.md, "Budgets and the optimum") has a flow variable for every node of every
tree. Its budgets alone satisfy, by max-flow and min-cut, that the stop masses e are nonnegative and

    e(U) <= H(U) = P(the draft tree has a node in U)      for every set U of nodes                  (Hall)

and e >= 0 is (Hall) for U = all nodes but one, because every tree has at least two and the masses sum to one.
With the drops d(v) = c(ceiling of v) - c(v) >= 0 as variables the program is

    minimise sum_v d(v) (target mass of v and of all below it in the order of ceilings)    subject to (Hall),

one variable a node and as many rows as there are sets; but only violated ones are ever added: start with the
subtrees, solve exactly, let an exact flow find sets that want more than their trees weigh, and repeat. Each
round adds a new set, so the method ends, with a flow that proves feasibility. The multipliers y of the rows
give the potentials mu(u) = sum of y over the sets with u in them, and mu proves optimality (`check`).

Floats only save rounds: HiGHS names the sets that limit its optimum, which alone fix the value, and of the
many budgets of that value the exact one next to the float one is nearly always within all other sets too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.optimum.dual_simplex import CoveringProgram
from spec_oracle.optimum.flow_program import FloatOptimum, float_optimum
from spec_oracle.optimum.trees import DraftTrees
from verifiers.parts.transport_plan import InfeasibleTransportError, transport_plan

NodeSet = frozenset[int]


@dataclass(frozen=True)
class BestBudgets:
    """Optimal ``budgets`` [N], ``potentials`` [N] that prove it, ``stops``: mass [n_t] per tree's node."""

    budgets: NDArray[Any]
    potentials: NDArray[Any]
    stops: list[NDArray[Any]]


def best_budgets(
    target: NDArray[Any], parent: NDArray[np.int64], ceiling: NDArray[np.int64], trees: DraftTrees
) -> BestBudgets:
    """Maximise sum_v p(v) c(v) over 0 <= c(v) <= c(ceiling[v]), c(root) = 1, that ``trees`` can serve.

    ``target`` [N] is p in exact rationals, of nodes numbered so that parents and ceilings, int [N], come
    first; the root is node 0 and its own parent and ceiling.
    """
    guess = float_optimum(target, parent, ceiling, trees)
    program = _BudgetProgram(target, parent, ceiling, trees, guess)
    program.add_sets({*_subtrees(parent)[1:], *(guess.sets if guess else ())})
    while True:
        budgets = program.solve()
        stop = _stop_masses(target * budgets, parent)
        violated = _negative(stop) or program.new_sets(_overfull_in_floats(stop, trees))
        if not violated:
            try:
                stops = transport_plan(stop, trees.nodes, trees.probability)
            except InfeasibleTransportError as error:
                violated = list(error.overfull)
            else:
                return BestBudgets(budgets, program.potentials(), stops)
        program.add_sets(violated)


def _stop_masses(reached: NDArray[Any], parent: NDArray[np.int64]) -> NDArray[Any]:
    """Return e(v) = w(v) - sum over children of w, given the masses w [N] with which nodes are reached."""
    stop = reached.copy()
    np.subtract.at(stop, parent[1:], reached[1:])
    return stop


def _subtrees(parent: NDArray[np.int64]) -> list[NodeSet]:
    """Return each node with all that is below it."""
    below: list[set[int]] = [{node} for node in range(len(parent))]
    for node in range(len(parent) - 1, 0, -1):
        below[parent[node]] |= below[node]
    return [frozenset(nodes) for nodes in below]


def _negative(stop: NDArray[Any]) -> list[NodeSet]:
    """Return, for each node of negative stop mass, the set of all others: it wants more than all there is."""
    everything = frozenset(range(len(stop)))
    return [everything - {int(node)} for node in np.flatnonzero(stop < 0)]


def _overfull_in_floats(stop: NDArray[Any], trees: DraftTrees) -> Iterable[NodeSet]:
    """Look for overfull sets in floats, an order of magnitude faster; finds none that is so by rounding."""
    try:
        transport_plan(stop.astype(np.float64), trees.nodes, trees.probability.astype(np.float64))
    except InfeasibleTransportError as error:
        return error.overfull
    return ()


class _BudgetProgram:
    """The program in the drops d, with its rows named by their node sets."""

    def __init__(
        self,
        target: NDArray[Any],
        parent: NDArray[np.int64],
        ceiling: NDArray[np.int64],
        trees: DraftTrees,
        guess: FloatOptimum | None,
    ) -> None:
        self._target, self._parent, self._trees = target, parent, trees
        # c(v) = 1 - the drops on the way from the root to v; a node that the target never reaches has none.
        active = 1 + np.flatnonzero(target[1:] > 0)
        self._drops = _ways(ceiling)[:, active]
        self._guess = None if guess is None else (guess.budgets[ceiling] - guess.budgets)[active]
        self._program = CoveringProgram(target @ self._drops)
        self._sets: dict[NodeSet, NDArray[np.bool_]] = {}

    def new_sets(self, sets: Iterable[NodeSet]) -> list[NodeSet]:
        """Return those of ``sets`` that are not rows yet."""
        return [nodes for nodes in sets if nodes not in self._sets]

    def add_sets(self, sets: Iterable[NodeSet]) -> None:
        """Demand e(U) <= H(U) of every U in ``sets``.

        e(U) = sum_v s(v) p(v) c(v) with s(v) = [v in U] - [parent of v in U]; at d = 0 every c is 1.
        """
        for nodes in sets:
            chosen = np.zeros(len(self._target), dtype=bool)
            chosen[list(nodes)] = True
            above = chosen[self._parent]
            above[0] = False
            signed = (chosen.astype(int) - above) * self._target
            self._program.add(signed @ self._drops, signed.sum() - self._trees.mass_touching(chosen))
            self._sets[nodes] = chosen

    def solve(self) -> NDArray[Any]:
        """Return the best budgets [N] under the rows so far; of several such those next to the guess."""
        self._program.solve()
        drops = None if self._guess is None else self._program.solution_near(self._guess)
        if drops is None:
            self._program.solve()
            drops = self._program.solution
        budgets: NDArray[Any] = self._target[0] - self._drops @ drops
        return budgets

    def potentials(self) -> NDArray[Any]:
        """Return mu [N] from the multipliers of the rows."""
        rows = np.array(list(self._sets.values()), dtype=np.int64)
        potentials: NDArray[Any] = self._program.multipliers @ rows
        return potentials


def _ways(ceiling: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int [N, N]: whether u lies on the way from the root, node 0, to v by ceilings, v included."""
    ways = np.eye(len(ceiling), dtype=np.int64)
    for node in range(1, len(ceiling)):
        ways[node] += ways[ceiling[node]]
    return ways
