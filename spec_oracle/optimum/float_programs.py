"""Optima in floats, by HiGHS: where to look for the exact ones.

The optimum over draft trees is one linear program, over budgets and flows. That over independent paths is
found by cutting planes.

The concave problem of docs/theory.md, "Budgets and the optimum", is a linear program in the budgets c alone,

    maximise sum_v p(v) c(v)   subject to   c(v) <= c(ceiling of v),   e(v) >= 0,
                                            w(M) <= H(q(M)) for every set M of nodes, none below another,

with w(v) = p(v) c(v). HiGHS solves it with the sets found so far. A solution is laid out over the paths as
evenly as it can be; of the level sets of that law those that hold too much are added. They are looked for at
several places between the best budgets that can be served and the solution: the nearer to those that can be
served, the deeper they cut. A set that has had slack for some rounds is dropped.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from spec_oracle.arrays import Booleans, Floats, Integers, Numbers
from spec_oracle.optimum.drafts import DistinctTrees, IndependentPaths

SAME_LEVEL = 1e-9
"""Potentials that differ by less are one level; a level wrongly split or merged costs time, not truth."""


@dataclass(frozen=True)
class FloatOptimum:
    """``budgets`` [N], optimal to rounding, dual ``potentials`` [N], tight ``sets``, bool [n, N]."""

    budgets: Floats
    potentials: Floats
    sets: Booleans


def flow_optimum(target: Floats, ceiling: Integers, trees: DistinctTrees) -> FloatOptimum | None:
    """Return the optimum that HiGHS finds, None if it finds none.

    Arguments as in `cutting_planes.best_budgets`. With variables c(v) and f(tree, node),

        maximise sum_v p(v) c(v)   subject to   sum of f over a tree <= P(tree),   c(v) <= c(ceiling of v),
                                                e(v) <= sum of f at v   for all nodes v but the root.

    What a tree does not spend stops at the root, which is on every tree; so the root needs no row, and c = 0
    below the root is feasible whatever the rounding. By complementary slackness the sets {v: mu(v) >= level}
    of the duals mu of the last rows are tight.
    """
    parent = trees.prefixes.parent
    nodes, below = len(parent), np.arange(1, len(parent))
    tree = np.repeat(np.arange(len(trees.nodes)), [len(on_tree) for on_tree in trees.nodes])
    node = np.concatenate(trees.nodes)
    arc = nodes + np.arange(len(node))
    width = nodes + len(arc)
    spent = matrix(len(trees.nodes), width, (tree, arc, 1.0))
    falling = matrix(nodes, width, (below, below, 1.0), (below, ceiling[1:], -1.0))
    wanted = (np.arange(nodes), np.arange(nodes), target), (parent[1:], below, -target[1:])
    unserved = matrix(nodes, width, *wanted, (node, arc, -1.0))
    result = scipy.optimize.linprog(
        np.concatenate([-target, np.zeros(len(arc))]),
        A_ub=scipy.sparse.vstack([unserved[1:], falling[1:], spent]),
        b_ub=np.concatenate([np.zeros(2 * (nodes - 1)), trees.probability.astype(np.float64)]),
        bounds=np.array([(1, 1)] + [(0, np.inf)] * (width - 1)),
        method="highs",
    )
    if not result.success:
        return None
    potentials = np.append(0, -result.ineqlin.marginals[: nodes - 1])
    levels = np.sort(potentials)
    upper = potentials >= levels[1:][np.diff(levels) > SAME_LEVEL, None]  # the lowest level has all nodes
    return FloatOptimum(result.x[:nodes], potentials, upper)


def matrix(height: int, width: int, *entries: tuple[Numbers, Numbers, Any]) -> Any:
    """Return the sparse matrix with these (rows, columns, values); a value may be one for all."""
    parts = [np.broadcast_arrays(*entry) for entry in entries]
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(height, width))


MAX_ROUNDS = 300
PLACES = (0.1, 0.4, 1.0)
"""Where sets are looked for, as shares of the way from the budgets that can be served to the solution."""

SETS_A_PLACE = 20
PATIENCE = 12
"""Rounds that a set is kept while it has slack."""

FEASIBILITY = 1e-10
SLACK = 3e-10
"""What HiGHS takes for satisfied, and from where on a set counts as violated, or as slack."""


def concave_optimum(
    target: Floats, ceiling: Integers, paths: IndependentPaths, gap: float
) -> FloatOptimum | None:
    """Return the optimum that HiGHS finds, None if it finds none; ``paths`` in floats.

    Arguments as in `cutting_planes.float_optimum`. Its budgets can be served; its sets have multipliers.
    """
    program = _Program(target, ceiling, paths)
    served = paths.budgets_under(paths.leaves, target, ceiling)
    for _ in range(MAX_ROUNDS):
        if not program.solve():
            return None
        way = program.budgets - served
        ratios = [paths.even_ratios(target * (served + place * way)) for place in PLACES]
        laws = [paths.within_capacity(ratio) for ratio in ratios]
        candidates = [paths.budgets_under(law, target, ceiling) for law in laws]
        served = max(served, *candidates, key=target.dot)
        if target @ (program.budgets - served) < gap or not program.add_sets(ratios):
            break
    return program.optimum(served)


class _Program:
    """The program with the sets found so far: closed ones, which their topmost nodes M name."""

    def __init__(self, target: Floats, ceiling: Integers, paths: IndependentPaths) -> None:
        self._target, self._paths, self._parent = target, paths, paths.prefixes.parent
        nodes, below = len(target), np.arange(1, len(target))
        falling = matrix(nodes, nodes, (below, below, 1.0), (below, ceiling[1:], -1.0))
        # Where budgets need not fall along a path, stop masses are not nonnegative by themselves.
        self._free = np.unique(self._parent[1:][ceiling[1:] != self._parent[1:]])
        lack = matrix(
            nodes, nodes, (self._parent[1:], below, target[1:]), (self._free, self._free, -target[self._free])
        )
        self._fixed = scipy.sparse.vstack([falling[1:], lack[self._free]])
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
        result = scipy.optimize.linprog(
            -self._target,
            A_ub=scipy.sparse.vstack([self._fixed, matrix(*topmost.shape, (row, node, self._target[node]))]),
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

    def add_sets(self, ratios: list[Floats]) -> bool:
        """Add level sets of laws of s/q = ``ratios`` that hold too much; False if there is no new one."""
        known = {inside.tobytes() for inside in self._inside}
        new: dict[bytes, Booleans] = {}
        for levels in map(self._paths.levels, ratios):
            ends = np.flatnonzero(levels.ends & (levels.wanted > levels.allowed + SLACK))
            few = np.linspace(0, len(ends), min(len(ends), SETS_A_PLACE), endpoint=False, dtype=np.int64)
            new |= {inside.tobytes(): inside for inside in self._paths.closed(levels, ends[few])}
        fresh = [inside for key, inside in new.items() if key not in known]
        self._new = np.array(fresh, dtype=bool).reshape(-1, len(self.budgets))
        return bool(fresh)

    def optimum(self, served: Floats) -> FloatOptimum:
        """Return the budgets that can be ``served``; potentials and tight sets are the last solution's."""
        return FloatOptimum(served, self._potentials, self._inside[self._idle == 0])
