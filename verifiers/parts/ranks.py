"""Ranks: select one of K independent paths by the rows along each of them, with a law that is known in full.

Every prefix v has a *rank law* π_v on the ranks 0..R-1, with the rows along v as its only inputs, and

    π_v = Σ_x q(x|v) π_{vx}.                                                                               (1)

So ranks drawn from the laws of the K full paths are independent and each has the law of the root. The path of
the lowest rank is selected, of several any with equal chance. It passes v with probability

    s(v) = q(v) Σ_r π_v(r) worth(r),   worth(r) = (T_r^K - T_{r+1}^K) / (T_r - T_{r+1}),                   (2)

T_r the chance of a rank of at least r at the root. Proof: docs/rules/lookahead_multipath_block.md. Ranks
need not be drawn: `selection_chances` sums over them, and one decision selects.

**Race.** A race passes the ranks of a node on to its tokens, and serves each as far as is wanted. The levels
of a node, of draft masses q_1, ..., q_G, lie in *blocks*; a block owns the stretch of ranks that its place
gives it. At time t a draft of level i is t / a_i through its own ranks, until its *time* a_i. So V(t) = Σ_i
q_i min(1, t / a_i) of the block is used up, and the rank that runs is the one V(t) into the stretch. Whatever
the times are, the rank laws of the levels average to the node's, and level i is served, per unit of its mass,

    b_i = A(a_i) / a_i,   A(t) = ∫_0^t (worth of the rank that runs at t') dt'.                            (3)

**Times for wanted b_1 >= b_2 >= ...**, from the last level of the block backwards: a = 1 there, and A(1) = b.
While only levels after i run, V has the slope R = Σ_{j>i} q_j / a_j, hence A(t) = A(a_{i+1}) - (D(V(a_{i+1}))
- D(V(t))) / R, with D(m) the worth of the lowest ranks of mass m. The time of level i is the root of A(t) =
b_i t. D is concave, hence so is A(t) - b_i t. At a_{i+1} it is at most 0, as b_i >= b_{i+1}; at t = 0 it is
at least 0 if Σ_{j<i} q_j b_j <= D(Σ_{j<i} q_j). Between the edges of ranks it is linear, so the root is
exact.
"""

from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    arange_like,
    as_arithmetic_of,
    as_float64,
    divide,
    kept,
    map_fields,
    minimum_one,
    namespace,
    ones,
    pick,
    pick_each,
    place_in,
    positive_part,
    power_sum,
    zeros,
)
from verifiers.parts.ratio_levels import NEGLIGIBLE, running_sum

_EARLIEST = 1e-12
_SMALLEST_TIME = 1e-280


@dataclass(frozen=True)
class Ranks:
    """The ranks at N prefixes: ``law`` [N, R], π_v, and ``worth`` [N, R], which is the same along a path."""

    law: Array
    worth: Array

    @property
    def edges(self) -> Array:
        """The chance of the first 0, 1, ..., R ranks, [N, R+1]."""
        return running_sum(self.law)

    @property
    def totals(self) -> Array:
        """The worth of the first 0, 1, ..., R ranks, [N, R+1]; the last is s(v) / q(v)."""
        return running_sum(self.law * self.worth)

    def reached(self, mass: Array) -> Array:
        """Return D, the worth of the lowest ranks of chance ``mass`` [N, M], [N, M]."""
        edges = self.edges
        rank = place_in(edges[:, 1:-1], mass, right=True)
        beyond = (mass - pick_each(edges, rank)) * pick_each(self.worth, rank)
        return pick_each(self.totals, rank) + beyond


def root_ranks(draft_mass: Array, count: Array, steps: int) -> Ranks:
    """Return the ranks of ``count`` int [N] paths from N roots with levels of draft mass [N, G].

    They are ``steps`` equal parts, cut once more where a level ends, so that D(t) is 1 - (1 - t)^K exactly
    there, and no chord of it: R = ``steps`` + G - 1.
    """
    xp = namespace(draft_mass)
    even = xp.astype(arange_like(draft_mass, steps + 1), xp.float64) / steps
    grid = zeros(draft_mass[:, :1]) + as_arithmetic_of(draft_mass, even)[None, :]
    cuts = running_sum(draft_mass)[:, 1:-1]
    cuts = xp.where(cuts < 1, cuts, ones(cuts))
    edges = xp.sort(xp.concat([grid, cuts], axis=1), axis=-1)
    left = 1 - edges
    worth = power_sum(left[:, 1:], left[:, :-1], count[:, None])
    return Ranks(edges[:, 1:] - edges[:, :-1], worth)


def with_absent(laws: Array, present: Array) -> Array:
    """Return rank laws [B, K, R + 1] in which paths that are not ``present``, bool [B, K], come last."""
    xp = namespace(laws)
    behind = xp.where(present, zeros(laws[:, :, 0]), ones(laws[:, :, 0]))
    return xp.concat([kept(present[:, :, None], laws), behind[:, :, None]], axis=-1)


def selection_chances(laws: Array) -> Array:
    """Return the chance [B, K] that each path is selected, given the rank laws [B, K, R] of full paths.

    Of paths of equal rank each lies at a place of its own in the rank, uniform in [0, 1). The chance that no
    other path comes before one at place 1 - t is a polynomial in t, whose integral is the chance sought. So
    the law of what follows is the same in whatever order the paths are given.
    """
    xp = namespace(laws)
    onwards = xp.flip(xp.cumulative_sum(xp.flip(laws, axis=-1), axis=-1), axis=-1)
    beyond = xp.concat([onwards[..., 1:], zeros(onwards[..., :1])], axis=-1)
    chances = []
    for path in range(laws.shape[1]):
        polynomial = [ones(laws[:, path])]
        for number, other in enumerate(other for other in range(laws.shape[1]) if other != path):
            factor = [beyond[:, other], laws[:, other]]
            polynomial = _product(polynomial, factor) if number else factor
        integral = polynomial[0]
        for degree, coefficient in enumerate(polynomial[1:], start=2):
            integral = integral + coefficient / degree
        chances.append(xp.sum(laws[:, path] * integral, axis=-1))
    return xp.stack(chances, axis=1)


def _product(polynomial: list[Array], factor: list[Array]) -> list[Array]:
    """Return the coefficients of a polynomial times one of degree 1, from the constant one on."""
    later, within = ([each * coefficient for each in polynomial] for coefficient in factor)
    pairs = zip(later[1:], within, strict=False)
    return [later[0], *(left + right for left, right in pairs), within[-1]]


@dataclass(frozen=True)
class _Front:
    """How far N races are known, from the end back to a time; [N] each.

    ``mass`` V and ``worth`` D(V) there, counted from the first block; ``time``; ``served`` A; ``rate`` R.
    """

    mass: Array
    worth: Array
    time: Array
    served: Array
    rate: Array


def race(wanted: Array, block: Array, mass: Array, ranks: Ranks) -> Array:
    """Return the rank laws [N, G, R] of a race that serves levels as ``wanted`` [N, G], float64.

    ``block`` int [N, G] ascends; ``mass`` [N, G] and ``ranks`` in any arithmetic. Times are floats in any,
    the laws that they lead to are in that of ``mass``.
    """
    time = race_times(wanted, as_float64(mass), block, map_fields(as_float64, ranks))
    return race_laws(as_arithmetic_of(mass, time), mass, block, ranks)


def race_times(wanted: Array, mass: Array, block: Array, ranks: Ranks) -> Array:
    """Return the times [N, G] that serve levels of ``mass`` [N, G] as ``wanted`` [N, G]; float64 only.

    ``block`` int [N, G] ascends. What is wanted of a level of negligible mass is ignored: it takes the time
    of the next one.
    """
    xp = namespace(mass)
    ends = running_sum(mass)
    ends_worth, edges, totals = ranks.reached(ends), ranks.edges, ranks.totals
    slopes = xp.concat([ranks.worth, ranks.worth[:, -1:]], axis=1)
    none, one = zeros(mass[:, 0]), ones(mass[:, 0])
    front = _Front(none, none, none, none, none)
    times: list[Array] = []
    for level in range(mass.shape[1] - 1, -1, -1):
        here, want = mass[:, level], wanted[:, level]
        anew = front.rate <= NEGLIGIBLE
        if times:
            anew = anew | (block[:, level] < block[:, level + 1])
        heavy = here > NEGLIGIBLE
        found = _time_of(want, front, edges, totals, slopes)
        time = xp.where(anew, one, xp.where(heavy, found, front.time))
        served = xp.where(anew | heavy, want * time, front.served)
        front = _Front(
            xp.where(anew, ends[:, level + 1], front.mass - front.rate * (front.time - time)),
            xp.where(anew, ends_worth[:, level + 1], front.worth - front.rate * (front.served - served)),
            time,
            served,
            xp.where(anew, here, front.rate + here / time),
        )
        times.append(time)
    return xp.stack(times[::-1], axis=1)


def _time_of(want: Array, front: _Front, edges: Array, totals: Array, slopes: Array) -> Array:
    """Return when A(t) = ``want`` t, [N]; at once, or nearly, where A is below from the start.

    ``slopes`` [N, R+1]: the worth of the rank that follows each edge.
    """
    xp = namespace(want)
    mass, whole = front.mass[:, None], front.worth[:, None]
    rate = xp.where(front.rate > NEGLIGIBLE, front.rate, 1.0)[:, None]
    time = front.time[:, None] - (mass - xp.minimum(edges, mass)) / rate
    served = front.served[:, None] - (whole - xp.minimum(totals, whole)) / rate
    number = arange_like(edges, edges.shape[1])
    left = xp.max(xp.where(served >= want[:, None] * time, number, 0), axis=-1)
    slope = pick(slopes, left)
    # From the last edge with A(t) >= b t on A is straight, until it falls below.
    root = divide(pick(served, left) - slope * pick(time, left), want - slope, otherwise=1)
    return xp.minimum(xp.maximum(root, _EARLIEST * front.time + _SMALLEST_TIME), front.time)


def race_laws(time: Array, mass: Array, block: Array, ranks: Ranks) -> Array:
    """Return the rank law [N, G, R] of every level, given its ``time``, ``mass`` and ``block``, all [N, G].

    Levels without mass have the law of the node. In rationals the laws average to the node's exactly.
    """
    xp = namespace(mass)
    edges, ends = ranks.edges, running_sum(mass)
    number = arange_like(mass, mass.shape[1])
    speed = mass / time
    later = (block[:, :, None] == block[:, None, :]) & (number[None, None, :] > number[None, :, None])
    afterwards = xp.sum(kept(later, speed[:, None, :]), axis=-1)
    used_up = ends[:, 1:] + time * afterwards
    # How many levels are through at each edge: at the last one all, whatever rounding says.
    through = xp.sum(xp.astype(used_up[:, :, None] <= edges[:, None, :-1], xp.int64), axis=1)
    through = xp.concat([through, zeros(through[:, :1]) + number.shape[0]], axis=1)
    running = xp.where(through < number.shape[0], through, number.shape[0] - 1)
    now = divide(edges - pick_each(ends, running), pick_each(speed + afterwards, running), otherwise=0)
    share = minimum_one(positive_part(now[:, None, :] / time[:, :, None]))
    share = kept(block[:, :, None] <= pick_each(block, running)[:, None, :], share)
    share = xp.where(number[None, :, None] < through[:, None, :], ones(share), share)
    # Levels of next to no mass pass edges at times that are mostly rounding.
    law = positive_part(share[:, :, 1:] - share[:, :, :-1])
    return xp.where((mass > 0)[:, :, None], law, ranks.law[:, None, :])
