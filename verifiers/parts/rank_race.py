"""A race that passes the ranks of a node on to its tokens, and serves each as far as is wanted.

The levels of a node, of draft masses q_1, ..., q_G, lie in *blocks*; a block owns the stretch of ranks that
its place gives it. At time t a draft of level i is t / a_i through its own ranks, until its *time* a_i. So
V(t) = Σ_i q_i min(1, t / a_i) of the block is used up, and the rank that runs is the one V(t) into the
stretch. Whatever the times are, the rank laws of the levels average to the node's, and level i is served, per
unit of its mass,

    b_i = A(a_i) / a_i,   A(t) = ∫_0^t (worth of the rank that runs at t') dt'.                            (1)

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
    positive_part,
    zeros,
)
from verifiers.parts.convex_minorant import NEGLIGIBLE
from verifiers.parts.ranks import Ranks
from verifiers.parts.ratio_levels import running_sum

_EARLIEST = 1e-12
_SMALLEST_TIME = 1e-280


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
