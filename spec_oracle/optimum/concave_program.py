"""The optimum over independent paths in floats, by cutting planes: where to look for the exact one.

The concave problem of docs/theory.md, "Budgets and the optimum", is a linear program in the budgets c alone,

    maximise sum_v p(v) c(v)   subject to   c(v) <= c(ceiling of v),   e(v) >= 0,
                                            w(M) <= H(q(M)) for every set M of nodes, none below another,

with w(v) = p(v) c(v). HiGHS solves it with the sets found so far. A solution is laid out over the paths as
evenly as it can be; of the level sets of that law those that hold too much are added. They are looked for
half way between the solution and the best budgets that can be served, where they cut deepest; a set that has
long had slack is dropped.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from spec_oracle.optimum.flow_program import FloatOptimum, matrix
from spec_oracle.optimum.paths import IndependentPaths

MAX_ROUNDS = 300
SETS_A_ROUND = 30
PATIENCE = 20
"""Rounds that a set is kept while it has slack."""

FEASIBILITY = 1e-10
SLACK = 3e-10
"""What HiGHS takes for satisfied, and from where on a set counts as violated, or as slack."""

AGREEMENT = 1e-10
"""How near the best budgets that can be served come to the program's, in tokens, before it ends."""


def concave_optimum(
    target: NDArray[np.float64], ceiling: NDArray[np.int64], paths: IndependentPaths
) -> FloatOptimum | None:
    """Return the optimum that HiGHS finds, None if it finds none; ``paths`` in floats.

    Arguments as in `cutting_planes.best_budgets`. Its budgets can be served; its sets have multipliers.
    """
    program = _Program(target, ceiling, paths)
    served = paths.budgets_under(paths.leaves, target, ceiling)
    for _ in range(MAX_ROUNDS):
        if not program.solve():
            return None
        for point in ((program.budgets + served) / 2, program.budgets):
            ratio = paths.even_ratios(target * point)
            candidate = paths.budgets_under(paths.within_capacity(ratio), target, ceiling)
            served = max(served, candidate, key=target.dot)
            if program.add_sets(ratio):
                break
        else:
            break
        if target @ (program.budgets - served) < AGREEMENT:
            break
    return program.optimum(served)


class _Program:
    """The program with the sets found so far: closed ones, which their topmost nodes M name."""

    def __init__(
        self, target: NDArray[np.float64], ceiling: NDArray[np.int64], paths: IndependentPaths
    ) -> None:
        self._target, self._paths, self._parent = target, paths, paths.prefixes.parent
        nodes, below = len(target), np.arange(1, len(target))
        falling = matrix(nodes, nodes, (below, below, 1.0), (below, ceiling[1:], -1.0))
        # Where budgets need not fall along a path, stop masses are not nonnegative by themselves.
        self._free = np.unique(self._parent[1:][ceiling[1:] != self._parent[1:]])
        lack = matrix(
            nodes, nodes, (self._parent[1:], below, target[1:]), (self._free, self._free, -target[self._free])
        )
        self._fixed = sparse.vstack([falling[1:], lack[self._free]])
        self._bounds = [(1, 1)] + [(0, 1)] * (nodes - 1)
        self._inside, self._new = np.zeros((0, nodes), dtype=bool), paths.prefixes.subtrees[1:]
        self._idle = np.zeros(0, dtype=np.int64)
        self.budgets = np.ones(nodes)

    def solve(self) -> bool:
        """Find the best ``budgets`` [N]; False if HiGHS finds none."""
        kept = self._idle < PATIENCE
        self._inside = np.concatenate([self._inside[kept], self._new])
        self._idle = np.concatenate([self._idle[kept], np.zeros(len(self._new), dtype=np.int64)])
        topmost = self._inside.copy()
        topmost[:, 1:] &= ~self._inside[:, self._parent[1:]]
        row, node = np.nonzero(topmost)
        allowed = self._paths.hit(topmost @ self._paths.draft)
        result = linprog(
            -self._target,
            A_ub=sparse.vstack([self._fixed, matrix(*topmost.shape, (row, node, self._target[node]))]),
            b_ub=np.concatenate([np.zeros(self._fixed.shape[0]), allowed]),
            bounds=self._bounds,
            method="highs-ds",
            options={"primal_feasibility_tolerance": FEASIBILITY, "dual_feasibility_tolerance": FEASIBILITY},
        )
        if result.success:
            first = self._fixed.shape[0]
            self.budgets, multipliers = result.x, -result.ineqlin.marginals
            self._potentials = multipliers[first:] @ self._inside
            self._potentials[self._free] -= multipliers[len(self.budgets) - 1 : first]
            self._idle = np.where(result.ineqlin.residual[first:] > SLACK, self._idle + 1, 0)
        return bool(result.success)

    def add_sets(self, ratio: NDArray[np.float64]) -> bool:
        """Add level sets of s/q = ``ratio`` that hold too much; False if there is no new one."""
        levels = self._paths.levels(ratio)
        ends = np.flatnonzero(levels.ends & (levels.wanted > levels.allowed + SLACK))
        few = np.linspace(0, len(ends), min(len(ends), SETS_A_ROUND), endpoint=False, dtype=np.int64)
        found = self._paths.closed(levels, ends[few])
        known = {inside.tobytes() for inside in self._inside}
        self._new = found[[inside.tobytes() not in known for inside in found]]
        return bool(len(self._new))

    def optimum(self, served: NDArray[np.float64]) -> FloatOptimum:
        """Return the budgets that can be ``served``; potentials and tight sets are the last solution's."""
        return FloatOptimum(served, self._potentials, self._inside[self._idle == 0])
