"""Blocks of balanced selection: the greatest convex minorant of the points (p-mass, hit probability).

See docs/theory.md, "Multi-path rules". With the levels sorted by p/q, highest first, and P_k, Q_k the
masses of the first k, the points are (P_k, 1 - (1 - Q_k)^m). A segment of the minorant is a block; s(x) =
p(x) times its slope.
"""

from dataclasses import dataclass

from verifiers.arrays import Array, arange_like, divide, filled, is_exact, kept, namespace, zeros
from verifiers.parts.powers import power, power_sum

_NEAR = 1e-11


@dataclass(frozen=True)
class Blocks:
    """Blocks of consecutive levels, [B, G] each, G levels; m is the number of drafts at the node.

    ``block`` int, the index of the level's block, from 0; ``same`` bool [B, G, G], whether two levels share a
    block; ``mass``, q of the whole block; ``below``, q of all later blocks; ``even``, the selection
    probability per unit of draft mass if the block treats all its hits alike; ``wanted``, the same if s is
    balanced, slope p/q (one value a level; ``even`` where a level has no draft mass).
    """

    block: Array
    same: Array
    mass: Array
    below: Array
    even: Array
    wanted: Array


def vertices(target_mass: Array, hit: Array) -> Array:
    """Return bool [B, G]: whether the minorant has a vertex just before level k (before level 0: False).

    ``hit`` [B, G+1], H, belongs to the first 0, 1, ..., G levels. Point j is a vertex iff no chord from an
    earlier to a later point passes below it, that is, iff the steepest slope that arrives at j is at most the
    flattest that leaves it. Slopes dH/dP are compared as dH/(dH + dP), so that vertical ones are ordinary;
    pairs of equal points have none and are left out. Collinear points are vertices, but for those of the
    last, vertical segment, p = 0.
    """
    xp = namespace(target_mass)
    reached = xp.concat([zeros(hit[:, :1]), xp.cumulative_sum(target_mass, axis=-1)], axis=-1)
    run, rise = reached[:, None, :] - reached[:, :, None], hit[:, None, :] - hit[:, :, None]
    slope = divide(rise, rise + run, otherwise=-1)
    is_vertex = xp.max(slope, axis=1) <= xp.min(xp.where(slope < 0, filled(slope, 2), slope), axis=2)
    inner = is_vertex[:, 1:-1] & (target_mass[:, :-1] > 0)
    return xp.concat([target_mass[:, :1] < 0, inner], axis=1)


def _tail(mass: Array) -> Array:
    """Return the mass after each level, [B, G], summed from the far end: exact zero after the last."""
    xp = namespace(mass)
    from_end = xp.flip(xp.cumulative_sum(xp.flip(mass, axis=-1), axis=-1), axis=-1)
    return xp.concat([from_end[:, 1:], zeros(from_end[:, :1])], axis=1)


def nearly_vertices(target_mass: Array, draft_mass: Array, count: Array, block: Array) -> Array:
    """Return bool [B, G]: whether the point before level k lies above the minorant, but by less than 1e-11.

    ``block`` int [B, G]: the blocks between the `vertices`. A selection that keeps so close to the limit of a
    prefix needs attractions 1e11 apart, and below 1e-15 the distance is rounding, so that there may be none.
    Making the point a vertex moves the ideal law by no more than the distance.
    """
    position = arange_like(block, block.shape[1])
    same = block[:, :, None] == block[:, None, :]
    later = block[:, :, None] < block[:, None, :]
    drafts = count[:, None]
    top, bottom = (power(sum_over(mask, draft_mass), drafts) for mask in (same | later, later))
    here = power(_tail(draft_mass) + draft_mass, drafts)
    whole = sum_over(same, target_mass)
    passed = sum_over(same & (position[None, None, :] < position[None, :, None]), target_mass)
    height = (top - here) - (top - bottom) * divide(passed, whole, otherwise=0)
    return (height <= _NEAR) & (whole > 0) & (position > 0)[None, :]


def sum_over(mask: Array, mass: Array) -> Array:
    """Return for every level the mass [B, G] of the levels that ``mask`` bool [B, G, G] marks for it."""
    return namespace(mass).sum(kept(mask, mass[:, None, :]), axis=-1)


def numbered(starts: Array) -> Array:
    """Return the index of each level's block, int [B, G], given where blocks start, bool [B, G]."""
    xp = namespace(starts)
    return xp.cumulative_sum(xp.astype(starts, xp.int64), axis=-1)


def make_blocks(target_mass: Array, draft_mass: Array, count: Array) -> Blocks:
    """Return the blocks of levels with masses p, q [B, G], at nodes with ``count`` int [B] drafts."""
    xp = namespace(target_mass)
    hit = xp.concat([zeros(draft_mass[:, :1]), 1 - power(_tail(draft_mass), count[:, None])], axis=-1)
    starts = vertices(target_mass, hit)
    if not is_exact(draft_mass):
        starts = starts | nearly_vertices(target_mass, draft_mass, count, numbered(starts))
    block = numbered(starts)
    same = block[:, :, None] == block[:, None, :]
    mass = sum_over(same, draft_mass)
    below = sum_over(block[:, :, None] < block[:, None, :], draft_mass)
    target_of_block = sum_over(same, target_mass)
    even = power_sum(below, mass + below, count[:, None])
    target_share = divide(target_mass, target_of_block, otherwise=1)
    draft_share = divide(draft_mass, mass, otherwise=1)
    # No feasible share ratio exceeds m; the cap keeps a division by a denormal from overflowing.
    ratio = divide(target_share, xp.maximum(draft_share, target_share / 2**40), otherwise=1)
    wanted = xp.where((target_of_block > 0) & (draft_mass > 0), even * ratio, even)
    return Blocks(block, same, mass, below, even, wanted)
