"""The whole linear program over budgets and flows in floats: where to look for the exact optimum."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from spec_oracle.arrays import Booleans, Floats, Integers, Numbers
from spec_oracle.optimum.trees import DistinctTrees

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
