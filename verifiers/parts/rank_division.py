"""How a node divides its ranks among its tokens: first what verification can accept, then what may follow.

At a node v with rank law π and worth κ (`verifiers.parts.ranks`) let D(m) be the worth of the lowest ranks of
chance m, and b(x) = Σ_r π_{vx}(r) κ(r): vx is selected with probability q(vx) b(x). Verification accepts vx
with at most q(v) min(u p(x), q(x) b(x)), where u = C(v) / q(v), C(v) the most that it accepts of v. However
the ranks are divided, for every set H of tokens

    Σ_x min(u p(x), q(x) b(x)) <= D(q(H)) + u (1 - p(H)).                                                  (1)

The least of these bounds belongs to a prefix H of the tokens sorted by p/q, highest first. It is attained if
H gets the lowest ranks, b <= u p/q in H, and b >= u p/q in the rest. What that leaves free is left to the
tokens that follow: they can use ranks that differ within a token, not ranks that differ between tokens.

* In H, where all is accepted, b is spread least: b = min(u p/q, θ).
* In the rest, where there is a surplus, b is half-way between two extremes. Spread least, b = max(u p/q, θ'),
  the surplus goes to the tokens that are accepted least; *balanced*, it goes to all in proportion to p/q, as
  far as D permits (`verifiers.parts.convex_minorant`).

A race (`verifiers.parts.rank_race`) can serve what is balanced, hence what is spread less, hence the mean.
"""

from dataclasses import dataclass
from functools import partial

from verifiers.arrays import (
    Array,
    arange_like,
    as_float64,
    divide,
    kept,
    map_fields,
    namespace,
    ones,
    pick_each,
    positive_part,
    zeros,
)
from verifiers.parts.convex_minorant import NEGLIGIBLE, balanced, per_mass
from verifiers.parts.rank_race import race
from verifiers.parts.ranks import Ranks, root_ranks
from verifiers.parts.ratio_levels import RatioLevels, make_levels, prefix_bounds, running_sum

_NO_BOUND = 1e30


@dataclass(frozen=True)
class PrefixNode:
    """N prefixes v of paths: ``law`` and ``worth`` of `Ranks`, and ``demand`` [N], u = C(v)/q(v)."""

    law: Array
    worth: Array
    demand: Array

    @property
    def ranks(self) -> Ranks:
        """The ranks at the prefixes."""
        return Ranks(self.law, self.worth)

    def only(self, chosen: Array) -> "PrefixNode":
        """Return the prefixes ``chosen`` int [M]."""
        return map_fields(lambda values: values[chosen], self)


@dataclass(frozen=True)
class Division:
    """The ranks of N nodes divided among V tokens in G levels; ``law`` [N, G, R], of a draft of a level."""

    node: PrefixNode
    levels: RatioLevels
    law: Array

    def child(self, parent: Array, token: Array, ratio: Array) -> PrefixNode:
        """Return the children ``token`` of nodes ``parent``, both int [M], of ratios p/q [M]."""
        xp = namespace(self.law)
        law, worth = self.levels.at(parent, token, self.law), self.node.worth[parent]
        wanted, served = self.node.demand[parent] * ratio, xp.sum(law * worth, axis=-1)
        return PrefixNode(law, worth, xp.where(wanted < served, wanted, served))

    def rate(self, parent: Array) -> Array:
        """Return s(x|v) / q(x|v) [M, V] at nodes v ``parent`` int [M], s the law of the selected path."""
        xp = namespace(self.law)
        served = xp.sum(self.law * self.node.worth[:, None, :], axis=-1)
        rate = divide(served, xp.sum(self.node.law * self.node.worth, axis=-1)[:, None], otherwise=0)
        return map_fields(lambda values: values[parent], self.levels).of_tokens(rate[parent])


def divide_root(target: Array, draft: Array, num_paths: Array | int, steps: int) -> Division:
    """Divide the ranks of ``num_paths`` paths at roots of rows p, q [N, V]; ``steps`` as in `root_ranks`.

    The number may be one for all roots, or int [N].
    """
    count = zeros(arange_like(target, target.shape[0])) + num_paths
    levels = make_levels(target, draft, partial(prefix_bounds, count=count))
    ranks = root_ranks(levels.draft_mass, count, steps)
    return _division(PrefixNode(ranks.law, ranks.worth, ones(target[:, 0])), levels)


def divide_further(target: Array, draft: Array, node: PrefixNode) -> Division:
    """Divide the ranks of ``node`` among its tokens, given its rows p, q [N, V]."""
    return _division(node, make_levels(target, draft, partial(_bounds, node)))


def _bounds(node: PrefixNode, passed: Array, draft_passed: Array) -> Array:
    """Return the bound (1) for sets of masses p(H), q(H), [N, M], in their type; the last is the whole."""
    node = map_fields(lambda values: namespace(values).astype(values, passed.dtype), node)
    return node.ranks.reached(draft_passed) + node.demand[:, None] * (passed[:, -1:] - passed)


def _division(node: PrefixNode, levels: RatioLevels) -> Division:
    """Divide the ranks of every node by a race."""
    ranks, mass = map_fields(as_float64, node.ranks), as_float64(levels.draft_mass)
    wanted, block = _wanted(as_float64(levels.target_mass) * as_float64(node.demand)[:, None], mass, ranks)
    return Division(node, levels, race(wanted, block, levels.draft_mass, node.ranks))


def _wanted(demanded: Array, mass: Array, ranks: Ranks) -> tuple[Array, Array]:
    """Return b and the block, 0 in H and 1 in the rest, of levels with masses u p and q; all [N, G]."""
    xp = namespace(mass)
    ends, passed = running_sum(mass), running_sum(demanded)
    reached = ranks.reached(ends)
    excess = reached - passed
    size = xp.argmin(excess, axis=-1)[:, None]
    inside = arange_like(mass, mass.shape[1])[None, :] < size
    ratio = per_mass(demanded, mass)
    missing = positive_part(-pick_each(excess, size))
    surplus = positive_part(excess[:, -1:] - pick_each(excess, size))
    # Both clamps solve a sum that is concave, or convex, in θ: the tightest of its tangents.
    ceiling = xp.max(kept(inside, per_mass(passed[:, 1:] - missing, ends[:, 1:])), axis=-1)
    behind = _from_end(mass)
    tangents = per_mass(_from_end(demanded) + surplus, behind)
    floor = xp.min(xp.where(inside | (behind <= NEGLIGIBLE), _NO_BOUND, tangents), axis=-1)
    spared = xp.maximum(ratio, floor[:, None])
    rest = (spared + balanced(demanded, mass, reached, size)[0]) / 2
    return xp.where(inside, xp.minimum(ratio, ceiling[:, None]), rest), xp.astype(~inside, xp.int64)


def _from_end(mass: Array) -> Array:
    """Return the mass of each level and all after it, [N, G], each to a few roundings."""
    xp = namespace(mass)
    return xp.flip(running_sum(xp.flip(mass, axis=-1))[:, 1:], axis=-1)
