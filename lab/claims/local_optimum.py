"""The best that a rule can reach which sees only the rows along its drafts, as every served verifier does.

The optimum of an instance may be attained by a rule made for it alone. Take a family of instances instead: no
rule can tell apart two of them with equal rows at all nodes of the draft tree, its *view*. Let f(view, v, x)
be the mass with which the tree stops at v and x follows, a whole path by the bonus, whatever it is. A rule is
lossless on instance i, by (1) of docs/theory.md, if over the views that i allows

    sum of f(view, v, x) + w_i(vx) = w_i(v) p_i(x|v)     for all |v| < L,

where w_i(v), what goes beyond v, is the mass that stops at v or below. The f of a view sum to its mass, and
the largest mean block efficiency is a linear program. Any multipliers y_i(vx) of these equations prove a
bound on it: no view does better than to put all its mass where tokens, less y times the equations, are most.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact.arithmetic import to_fraction, to_internal
from spec_oracle.optimum.drafts import PrefixTree, trees_of
from spec_oracle.optimum.float_programs import matrix
from spec_oracle.toy import Instance
from verifiers import Siblings


class LocalOptimum(NamedTuple):
    """The ``value`` in tokens, how far a proven bound lies above it, and the multipliers that prove it."""

    value: float
    gap: Fraction
    certificate: NDArray[Any]


def local_optimum(instances: Sequence[Instance]) -> LocalOptimum:
    """Return the largest mean block efficiency of a rule that sees only rows along its independent drafts.

    In tokens, of a rule that is lossless on each of the ``instances`` [n], which share V, L and K. ``value``
    is what HiGHS attains in floats; that none exceeds ``value + gap`` is proven in rationals by the
    certificate, the multipliers [n, N] of `local_bound`. Raises `InvalidInputError` for instances of
    different shapes and `SpecOracleError` where HiGHS finds no optimum.
    """
    prefixes, views = _views(instances)
    count, nodes = len(instances), len(prefixes.parent)
    rows_of_stop = [
        _stops(prefixes, row.astype(np.float64), np.eye(nodes)).T for row in _next_tokens(prefixes, instances)
    ]
    children = {node: np.flatnonzero(prefixes.parent[1:] == node) + 1 for node in range(prefixes.starts[-2])}
    tokens, entries, view_of = [], [], []
    for number, (on_tree, _, members) in enumerate(views):
        for node in on_tree:
            for child in children.get(node, [0]):
                rows = np.zeros((count, nodes))
                for member in members:
                    rows[member] = rows_of_stop[member][node]
                    rows[member, child] += child > 0
                entries.append(sparse.csr_array(rows.reshape(1, -1)))
                tokens.append((len(prefixes.contexts[node]) + 1) * len(members) / count)
                view_of.append(number)
    split = matrix(len(views), len(tokens), (np.array(view_of), np.arange(len(tokens)), 1.0))
    result = linprog(
        -np.array(tokens),
        A_eq=sparse.vstack([split, sparse.vstack(entries).T]),
        b_eq=np.concatenate([[float(mass) for _, mass, _ in views], np.zeros(count * nodes)]),
        method="highs",
    )
    if not result.success:
        raise SpecOracleError("optimum: HiGHS found no solution of a program that has one")
    multipliers = to_internal(-result.eqlin.marginals[len(views) :].reshape(count, nodes))
    value = -float(result.fun)
    return LocalOptimum(value, local_bound(instances, multipliers) - Fraction(value), multipliers)


def local_bound(instances: Sequence[Instance], multipliers: NDArray[Any]) -> Fraction:
    """Return the bound on `local_optimum` that rational ``multipliers`` y_i of the nodes, [n, N], prove."""
    prefixes, views = _views(instances)
    costs = np.array(
        [
            _stops(prefixes, row, y)
            for row, y in zip(_next_tokens(prefixes, instances), multipliers, strict=True)
        ]
    )
    lengths = np.array([len(context) + 1 for context in prefixes.contexts])
    bound = Fraction(0)
    for on_tree, mass, members in views:
        cheapest = multipliers[members].sum(axis=0)[1:].reshape(-1, prefixes.vocab_size).min(axis=1)
        follows = np.append(cheapest, np.zeros(len(lengths) - len(cheapest), dtype=object))
        best = Fraction(len(members), len(instances)) * lengths - costs[members].sum(axis=0) - follows
        bound += mass * best[on_tree].max()
    return to_fraction(bound)


def _stops(prefixes: PrefixTree, row: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return y times the left less the right sides of the equations for a unit of mass that stops at a node.

    ``row`` [N] is p(x|v) of node vx, ``y`` [..., N]; the result is [..., N]. What follows v is not counted.
    """
    wanted = np.zeros_like(y)
    for node, above in enumerate(prefixes.parent[1:], start=1):
        wanted[..., above] += row[node] * y[..., node]
    stops = -wanted
    for node, above in enumerate(prefixes.parent[1:], start=1):
        stops[..., node] += stops[..., above] + y[..., node]
    return stops


def _next_tokens(prefixes: PrefixTree, instances: Sequence[Instance]) -> list[NDArray[Any]]:
    """Return p(x|v) of every node vx, [N], of each instance; 1 at the root."""
    return [
        to_internal(np.append(1, [i.exact.target.conditional(v[:-1])[v[-1]] for v in prefixes.contexts[1:]]))
        for i in instances
    ]


def _views(
    instances: Sequence[Instance],
) -> tuple[PrefixTree, list[tuple[NDArray[np.int64], Any, list[int]]]]:
    """Return the nodes and the views: nodes on the tree, int [n], its mass, the instances that allow it."""
    shapes = {(i.vocab_size, i.draft_length, i.num_paths) for i in instances}
    if len(shapes) != 1:
        raise InvalidInputError(f"instances: expected one shape (V, L, K), got {sorted(shapes)}")
    vocab, length, _ = shapes.pop()
    prefixes = PrefixTree(vocab, length)
    views: dict[Any, tuple[NDArray[np.int64], Any, list[int]]] = {}
    for number, instance in enumerate(i.exact for i in instances):
        models = [
            (
                tuple(instance.target.conditional(v)),
                tuple(instance.draft.conditional(v)) if len(v) < length else (),
            )
            for v in prefixes.contexts
        ]
        trees = trees_of(instance, Siblings.INDEPENDENT)
        for paths, nodes, mass in zip(trees.paths, trees.nodes, trees.probability, strict=True):
            seen = (paths, tuple(models[node] for node in nodes))
            views.setdefault(seen, (nodes, mass, []))[2].append(number)
    return prefixes, list(views.values())
