"""Balanced selection: choose one of m i.i.d. drafts at a node so that its law s is as near p as can be.

See docs/theory.md, "Multi-path rules". The blocks of the convex minorant rank the drafts, and inside a block
a race (`verifiers.parts.ranks`) serves every token in proportion to p. The plan carries the law that it
*really* has, so a rule that accepts and corrects against it is lossless however the plan came about.
"""

from dataclasses import dataclass
from functools import partial

from verifiers.arrays import (
    Array,
    as_float64,
    distinct_requests,
    map_fields,
    namespace,
    working_rows,
)
from verifiers.parts.ranks import race, root_ranks, selection_chances, with_absent
from verifiers.parts.ratio_levels import RatioLevels, balanced, make_levels, prefix_bounds, running_sum


@dataclass(frozen=True)
class BalancedPlan:
    """A way to select one of the drafts at a node; B requests, V tokens, G levels of p/q, R ranks.

    ``ranks`` [B, G, R]: the rank law of a draft of each of the ``levels``; the lowest rank is selected.
    ``law`` [B, V]: the probability mass with which each token is then selected.
    """

    levels: RatioLevels
    ranks: Array
    law: Array


def balanced_plan(target: Array, draft: Array, count: Array) -> BalancedPlan:
    """Plan the selection for target and draft rows [B, V] at nodes with ``count`` int [B] >= 1 drafts.

    Rows are probability mass and are normalised. Levels are planned in float64, rows stay in their working
    precision, the law with them; on exact rationals it is exact for the plan. Equal rows are planned once.

    >>> import numpy as np
    >>> plan = balanced_plan(np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]]), np.array([2]))
    >>> plan.law.round(6).tolist()  # hit token 0 with 1 - 0.8^2
    [[0.36, 0.64]]
    """
    plan, copy = _distinct_plans(target, draft, count)
    return map_fields(lambda values: values[copy], plan)


def balanced_chances(target: Array, draft: Array, tokens: Array, present: Array) -> tuple[Array, Array]:
    """Return the chance [B, K] of every draft at a node to be selected, and the law [B, V] of its token.

    Rows as of `balanced_plan`; ``tokens`` int [B, K] are the drafts, ``present`` bool [B, K] which there are.
    """
    xp = namespace(tokens)
    plan, copy = _distinct_plans(target, draft, xp.sum(xp.astype(present, xp.int64), axis=-1))
    return chances_at(plan, copy, tokens, present), plan.law[copy]


def chances_at(plan: BalancedPlan, node: Array, tokens: Array, present: Array) -> Array:
    """Return the chance [B, K] of every draft to be selected at a ``node`` int [B] of the plan."""
    xp = namespace(plan.law)
    nodes = node[:, None] + 0 * tokens
    laws = plan.levels.at(xp.reshape(nodes, (-1,)), xp.reshape(tokens, (-1,)), plan.ranks)
    laws = xp.reshape(laws, (*tokens.shape, -1))
    return selection_chances(with_absent(laws, present))


def _distinct_plans(target: Array, draft: Array, count: Array) -> tuple[BalancedPlan, Array]:
    """Return the plans of distinct requests, and for each request the number of its plan, int [B]."""
    p, q = working_rows(target), working_rows(draft)
    chosen, copy = distinct_requests(p, q, count)
    return _plan(p[chosen], q[chosen], count[chosen]), copy


def _plan(p: Array, q: Array, count: Array) -> BalancedPlan:
    """Plan distinct normalised rows."""
    xp = namespace(p)
    levels = make_levels(p, q, partial(prefix_bounds, count=count))
    ranks = root_ranks(levels.draft_mass, count, 1)
    target_mass, draft_mass = as_float64(levels.target_mass), as_float64(levels.draft_mass)
    hit = map_fields(as_float64, ranks).reached(running_sum(draft_mass))
    rate, block = balanced(target_mass, draft_mass, hit)
    division = race(rate, block, levels.draft_mass, ranks)
    law = q * levels.of_tokens(xp.sum(division * ranks.worth[:, None, :], axis=-1))
    return BalancedPlan(levels, division, law)
