"""Balanced selection: choose one of m i.i.d. drafts at a node so that its law s is as near p as can be.

See docs/theory.md, "Multi-path rules". The plan is computed in float64 (or in exact rationals) and carries
the law that it *really* has: `BalancedPlan.law` is exact to rounding however roughly the attractions are
fitted, so a rule that accepts and corrects against it is lossless at every tolerance. Tolerance costs
acceptance, by ``shortfall``.
"""

from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    arange_like,
    as_arithmetic_of,
    as_float64,
    is_exact,
    kept,
    map_fields,
    namespace,
    pick_each,
    positive_part,
    working_rows,
)
from verifiers.interface import DecisionSource
from verifiers.parts.attraction_fit import fit_attractions, law_by_enumeration
from verifiers.parts.convex_minorant import Blocks, make_blocks
from verifiers.parts.ratio_levels import make_levels, prefix_bounds
from verifiers.parts.repeated_rows import distinct_requests

TOLERANCE = 1e-9


@dataclass(frozen=True)
class BalancedPlan:
    """A way to select one of the drafts at a node; B requests, V tokens, G levels of p/q.

    ``level`` int [B, V] and ``share`` [B, V]: a draft of token x counts as of level ``level``, or, with
    chance ``share``, of the next one. ``block`` int [B, G]: drafts of the smallest block win. ``attraction``
    [B, G]: among them, each is chosen in proportion to its level's attraction. ``law`` [B, V]: the
    probability mass with which each token is then selected. ``optimum`` and ``shortfall`` [B]: the largest
    acceptance that any one-step rule reaches, and how far sum min(p, law) falls short of it.
    """

    level: Array
    share: Array
    block: Array
    attraction: Array
    law: Array
    optimum: Array
    shortfall: Array


def balanced_plan(target: Array, draft: Array, count: Array, tolerance: float = TOLERANCE) -> BalancedPlan:
    """Plan the selection for target and draft rows [B, V] at nodes with ``count`` int [B] >= 1 drafts.

    Rows are probability mass and are normalised. The fit stops once Σ |law - ideal law| <= ``tolerance``, or
    after 60 steps. On exact rationals attractions are still floats, but the law they lead to is computed
    exactly, by enumeration: V^(count - 1) terms a token. Equal rows are planned once.

    >>> import numpy as np
    >>> plan = balanced_plan(np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]]), np.array([2]))
    >>> plan.law.round(6).tolist(), plan.optimum.round(6).tolist()  # two drafts hit token 0 with 1 - 0.8^2
    ([[0.36, 0.64]], [0.86])
    """
    p, q = working_rows(target), working_rows(draft)
    chosen, copy = distinct_requests(p, q, count)
    plan = _plan(p[chosen], q[chosen], count[chosen], tolerance)
    return map_fields(lambda values: values[copy], plan)


def select(plan: BalancedPlan, tokens: Array, present: Array, decisions: DecisionSource) -> Array:
    """Select one draft of every request; returns its index, int [B].

    ``tokens`` int [B, K] and ``present`` bool [B, K]: the drafts at the node, ``count`` of them present in
    every row that matters. Rows without any select index 0. Two decisions: levels, then the draft.
    """
    xp = namespace(plan.share)
    first = arange_like(tokens, tokens.shape[1])[None, :] == 0
    present = present | (first & ~xp.any(present, axis=-1, keepdims=True))
    share = pick_each(plan.share, tokens)
    moved = decisions.bernoulli(kept(present, share))
    level = pick_each(plan.level, tokens) + xp.astype(moved, tokens.dtype)
    block = pick_each(plan.block, level)
    block = xp.where(present, block, plan.block.shape[1])
    attraction = pick_each(plan.attraction, level)
    wins = block == xp.min(block, axis=-1, keepdims=True)
    return decisions.categorical(kept(wins, attraction))


def _plan(p: Array, q: Array, count: Array, tolerance: float) -> BalancedPlan:
    """Plan distinct normalised rows."""
    xp = namespace(p)
    levels = make_levels(p, q, lambda passed, draft_passed: prefix_bounds(passed, draft_passed, count))
    blocks = make_blocks(levels.target_mass, levels.draft_mass, count)
    attraction, per_mass = _attractions(levels.draft_mass, blocks, count, tolerance)
    law = q * levels.of_tokens(per_mass)
    accepted = xp.sum(xp.where(p < law, p, law), axis=-1)
    shortfall = positive_part(levels.optimum - accepted)
    return BalancedPlan(levels.level, levels.share, blocks.block, attraction, law, levels.optimum, shortfall)


def _attractions(draft_mass: Array, blocks: Blocks, count: Array, tolerance: float) -> tuple[Array, Array]:
    """Return λ and F, [B, G]; for rationals λ is fitted in float64, and F is exact for that λ."""
    if not is_exact(draft_mass):
        return fit_attractions(draft_mass, blocks, count, tolerance)
    rough = map_fields(lambda values: as_float64(values) if is_exact(values) else values, blocks)
    fitted, _ = fit_attractions(as_float64(draft_mass), rough, count, tolerance)
    attraction = as_arithmetic_of(draft_mass, fitted)
    return attraction, law_by_enumeration(draft_mass, attraction, blocks.block, count)
