"""Sort a vocabulary by p/q and reduce it to a few *levels* of p/q, without giving up exactness.

Balanced selection treats tokens of equal p/q alike, so what it has to know of a vocabulary is the mass on
each value of p/q. A small vocabulary has one level a token. A large one gets a grid of levels, and a draft of
a token whose ratio r lies between two of them, r_j >= r >= r_{j+1}, counts by a coin as one of level j + 1
with chance ``share`` = (r_j - r) / (r_j - r_{j+1}), else as one of level j. Selection sees only levels, hence

    s(x) = q(x) [(1 - share) F_j + share F_{j+1}],   F = selection probability per unit of draft mass,

a linear interpolation of F, known exactly. In the ideal F_j = slope r_j, and then s(x) = slope p(x) with no
discretisation error at all. What the grid costs is only that the coins spread the ratios: the concave curve Q
-> max p(T) over q(T) <= Q is replaced by the polygon of its tangents at the levels. That is a second-order
error, second in the mass b of an interval between levels, and does no harm unless it exceeds the *slack*: by
how much the bound 1 - p(T) + 1 - (1 - q(T))^n, or another of the caller's, exceeds its least value, alpha*,
for the prefix T that ends there (docs/theory.md, "Budgets and the optimum"). So half of the levels are spread
with b in proportion to the square root of the slack, which crowds them where it vanishes.

**The balanced base** is the greatest convex minorant of the points (target mass, hit probability): `vertices`
and `balanced`, see docs/theory.md, "Multi-path rules". With the levels sorted by p/q, highest first, P_k the
target mass of the first k and H_k the most that selection can give them, the points are (P_k, H_k). A segment
of the minorant is a block; s(x) = p(x) times its slope. SciPy's `isotonic_regression` finds the slopes of one
row of floats; here rows come in batches, of rationals and of tensors, too.
"""

from collections.abc import Callable
from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    arange_like,
    as_float64,
    divide,
    filled,
    is_exact,
    kept,
    minimum_one,
    namespace,
    normalised,
    pick_each,
    place_in,
    positive_part,
    raised_to,
    zeros,
)

MAX_LEVELS = 64
_SMALLEST_SLACK = 1e-12
_SMALLEST_KEY = 1e-30

NEGLIGIBLE = 1e-11
"""Draft mass on which nothing depends: what is wanted of it per unit would be rounding, or overflow."""


@dataclass(frozen=True)
class RatioLevels:
    """Tokens as levels of p/q, highest first; all probability mass, B requests, V tokens, G levels.

    ``level`` int [B, V]; ``share`` [B, V], the chance that a draft of the token counts as one of the next
    level; ``target_mass`` and ``draft_mass`` [B, G], in float64 unless exact.
    """

    level: Array
    share: Array
    target_mass: Array
    draft_mass: Array

    def of_tokens(self, values: Array) -> Array:
        """Return ``values`` [B, G] of the levels for every token, [B, V]: the mean over its two levels."""
        xp = namespace(values)
        values = xp.astype(values, self.share.dtype)
        following = self.level + xp.astype(self.share > 0, self.level.dtype)
        return (1 - self.share) * pick_each(values, self.level) + self.share * pick_each(values, following)

    def at(self, request: Array, token: Array, values: Array) -> Array:
        """Return ``values`` [B, G, R] for tokens int [M] of requests int [M], [M, R]."""
        level, share = self.level[request, token], self.share[request, token][:, None]
        following = level + namespace(values).astype(share[:, 0] > 0, level.dtype)
        return (1 - share) * values[request, level] + share * values[request, following]


def ratio_key(target: Array, draft: Array) -> Array:
    """Return q/(p+q), increasing where p/q decreases, in [0, 1] even for q = 0; one where p = q = 0."""
    return divide(draft, target + draft, otherwise=1)


def prefix_bounds(passed: Array, draft_passed: Array, count: Array) -> Array:
    """Return 1 - p(T) + 1 - (1 - q(T))^n, [B, V+1], for prefixes T of masses p(T) and q(T), [B, V+1].

    The least is alpha* (arXiv 2502.18779; docs/theory.md, "Budgets and the optimum"). ``count`` int [B] is n.
    """
    return (1 - passed) + (1 - raised_to(count[:, None])(positive_part(1 - draft_passed)))


def running_sum(mass: Array) -> Array:
    """Return the sums of the first 0, 1, ..., V entries, [B, V+1] from [B, V], each to a few roundings."""
    rough, lost = _rough_and_lost(mass)
    return rough + lost


def _rough_and_lost(mass: Array) -> tuple[Array, Array]:
    """Return plain running sums, and what rounding has taken from them, to be added to them; [B, V+1].

    A plain cumulative sum of V equal terms is off by up to V roundings, all of one sign; what each of its
    steps has lost can be read off from the step.
    """
    xp = namespace(mass)
    none = zeros(mass[:, :1])
    rough = xp.concat([none, xp.cumulative_sum(mass, axis=-1)], axis=-1)
    lost = mass - (rough[:, 1:] - rough[:, :-1])
    return rough, xp.concat([none, xp.cumulative_sum(lost, axis=-1)], axis=-1)


def make_levels(target: Array, draft: Array, bound: Callable[[Array, Array], Array]) -> RatioLevels:
    """Return the levels of rows p, q [B, V], each of mass one.

    ``bound`` returns the bound on acceptance of the prefixes of masses p(T) and q(T), all [B, V+1]. One level
    a token up to `MAX_LEVELS` tokens, and always for exact rationals; else a grid of that many.
    """
    xp = namespace(target)
    key = ratio_key(target, draft)
    order = xp.argsort(key, axis=-1, stable=False)
    p, q = pick_each(target, order), pick_each(draft, order)
    if target.shape[1] <= MAX_LEVELS or is_exact(target):
        level = zeros(order) + arange_like(order, order.shape[1])
        share, target_mass, draft_mass = zeros(q), p, q
    else:
        rough, lost = _rough_and_lost(q)
        bounds = bound(running_sum(p), rough + lost)
        knots = _knots(p, q, bounds - xp.min(bounds, axis=-1, keepdims=True))
        own = _mass_from(knots, rough, lost)
        level, share, target_mass, draft_mass = _grid(q, pick_each(key, order), knots, own)
    if not is_exact(target):
        target_mass, draft_mass = as_float64(target_mass), normalised(as_float64(draft_mass))
    return RatioLevels(_undo(order, level), _undo(order, share), target_mass, draft_mass)


def _undo(order: Array, values: Array) -> Array:
    """Return ``values`` [B, V] in token order, given ``order`` int [B, V] that sorted the tokens."""
    xp = namespace(values)
    restored = xp.empty_like(values)
    restored[arange_like(order, order.shape[0])[:, None], order] = values
    return restored


def _grid(q: Array, key: Array, knots: Array, mass: Array) -> tuple[Array, Array, Array, Array]:
    """Return ``level``, ``share`` [B, V] and both masses [B, G], for a grid of levels.

    Row q and key [B, V] are sorted by `ratio_key`; ``knots`` int [B, G] are the positions of the levels,
    ``mass`` [B, G] that of q from each of them to the next.
    """
    xp = namespace(q)
    position = zeros(knots[:, :1]) + arange_like(q, q.shape[1])
    level = place_in(knots, position, right=True) - 1
    ratio = (1 - key) / xp.clip(key, _SMALLEST_KEY, 1.0)
    high = pick_each(ratio, knots)
    low = xp.concat([high[:, 1:], high[:, -1:]], axis=1)
    upper, lower = pick_each(high, level), pick_each(low, level)
    share = minimum_one(positive_part(divide(upper - ratio, upper - lower, otherwise=0)))
    passed_on = _mass_from(knots, *_rough_and_lost(q * share))
    own = positive_part(mass - passed_on)
    draft_mass = own + xp.concat([zeros(own[:, :1]), passed_on[:, :-1]], axis=1)
    return level, share, draft_mass * high, draft_mass


def _mass_from(knots: Array, rough: Array, lost: Array) -> Array:
    """Return the mass from each knot to the next, or to the end, [B, G] in float64.

    ``rough`` and ``lost`` [B, V+1] are the running sums of the mass, as of `_rough_and_lost`.
    """
    last = rough.shape[1] - 1
    ends = namespace(rough).concat([knots, filled(knots[:, -1:], last)], axis=1)
    passed = as_float64(pick_each(rough, ends)) + as_float64(pick_each(lost, ends))
    return positive_part(passed[:, 1:] - passed[:, :-1])


def _knots(p: Array, q: Array, slack: Array) -> Array:
    """Return the sorted positions int [B, G] of the tokens whose ratios become levels; repeats do no harm.

    Both ends, both sides of the edge of S, and quantiles of two measures in equal parts: mass = (p + q)/2,
    and mass / (mass + sqrt(slack)), in which no single token outweighs the rest. Heavy tokens cover a
    quantile and so become levels themselves.
    """
    xp = namespace(p)
    last = p.shape[1] - 1
    size = xp.argmin(slack, axis=-1)[:, None]
    edge = xp.where(size < last, size, last)
    before = xp.where(edge > 0, edge - 1, edge)
    mass = (p + q) / 2
    nearest = xp.minimum(slack[:, :-1], slack[:, 1:])
    crowded = normalised(mass / (mass + xp.sqrt(nearest + _SMALLEST_SLACK)))
    passed = xp.cumulative_sum(mass + crowded, axis=-1)
    steps = xp.astype(arange_like(p, MAX_LEVELS - 4) + 1, p.dtype) * (2 / (MAX_LEVELS - 3))
    found = place_in(passed, zeros(passed[:, :1]) + steps)
    found = xp.where(found < last, found, last)
    return xp.sort(xp.concat([zeros(edge), before, edge, found, filled(edge, last)], axis=1), axis=-1)


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
