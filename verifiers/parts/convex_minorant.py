"""The balanced base: the greatest convex minorant of the points (target mass, hit probability).

See docs/theory.md, "Multi-path rules". With the levels sorted by p/q, highest first, P_k the target mass of
the first k and H_k the most that selection can give them, the points are (P_k, H_k). A segment of the
minorant is a block; s(x) = p(x) times its slope. SciPy's `isotonic_regression` finds the slopes of one row of
floats; here rows come in batches, of rationals and of tensors, too.
"""

from verifiers.arrays import Array, arange_like, divide, filled, kept, namespace, zeros

NEGLIGIBLE = 1e-11
"""Draft mass on which nothing depends: what is wanted of it per unit would be rounding, or overflow."""


def per_mass(amount: Array, mass: Array) -> Array:
    """Return ``amount`` per unit of ``mass``, and 0 where the mass is negligible."""
    return divide(amount, kept(mass > NEGLIGIBLE, mass), otherwise=0)


def vertices(target_mass: Array, hit: Array) -> Array:
    """Return bool [B, G]: whether the minorant has a vertex just before level k (before level 0: False).

    ``hit`` [B, G+1], H, belongs to the first 0, 1, ..., G levels. Point j is a vertex iff no chord from an
    earlier to a later point passes below it, that is, iff the steepest slope that arrives at j is at most the
    flattest that leaves it. Slopes dH/dP are compared as dH/(dH + dP), so that vertical ones are ordinary;
    pairs of equal points have none and are left out. Collinear points are vertices, except for those of the
    last, vertical segment, p = 0.
    """
    xp = namespace(target_mass)
    reached = xp.concat([zeros(hit[:, :1]), xp.cumulative_sum(target_mass, axis=-1)], axis=-1)
    run, rise = reached[:, None, :] - reached[:, :, None], hit[:, None, :] - hit[:, :, None]
    slope = divide(rise, rise + run, otherwise=-1)
    is_vertex = xp.max(slope, axis=1) <= xp.min(xp.where(slope < 0, filled(slope, 2), slope), axis=2)
    inner = is_vertex[:, 1:-1] & (target_mass[:, :-1] > 0)
    return xp.concat([target_mass[:, :1] < 0, inner], axis=1)


def balanced(
    target_mass: Array, draft_mass: Array, hit: Array, first: Array | int = 0
) -> tuple[Array, Array]:
    """Return s/q and the block, int, of every level from ``first`` int [B, 1] on, [B, G]; ``hit`` as above.

    In a block without target mass s is in proportion to q. Meaningless for levels of negligible mass.
    """
    xp = namespace(draft_mass)
    starts = vertices(target_mass, hit) | (arange_like(draft_mass, draft_mass.shape[1])[None, :] == first)
    block = xp.cumulative_sum(xp.astype(starts, xp.int64), axis=-1)
    same = block[:, :, None] == block[:, None, :]
    whole, target, draft = (
        xp.sum(kept(same, mass[:, None, :]), axis=-1)
        for mass in (hit[:, 1:] - hit[:, :-1], target_mass, draft_mass)
    )
    share = divide(target_mass, target, otherwise=0)
    uneven, even = whole * per_mass(share, draft_mass), per_mass(whole, draft)
    return xp.where(target > 0, uneven, even), block
