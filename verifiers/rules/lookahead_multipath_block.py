"""Look-ahead multi-path block: select a path by how all of it goes on, then verify it as a block.

A tree has independent paths from where its stem ends, one for each child there.
Equal siblings are several drafts of one token, and of these the first has the children of all. So of n equal
siblings the first child continues the first one, the second child the second one, and so on: K paths that
were laid out as a tree are these K paths again. A path without a child ends; further children are not used.

A node divides its ranks among its tokens: first what verification can accept, then what may follow.

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
  far as D permits (`verifiers.parts.ratio_levels`).

A race (`verifiers.parts.ranks`) can serve what is balanced, hence what is spread less, hence the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from verifiers.arrays import (
    Array,
    arange_like,
    as_float64,
    distinct_requests,
    divide,
    filled,
    kept,
    map_fields,
    namespace,
    ones,
    pick,
    pick_each,
    positive_part,
    unfilled,
    working_rows,
    zeros,
)
from verifiers.interface import ROOT, DecisionSource, Drafts, Path, Rows, Siblings, Traits, Verdict
from verifiers.parts.climb import Places, places_of
from verifiers.parts.path import verify_selected
from verifiers.parts.ranks import Ranks, race, root_ranks, selection_chances, with_absent
from verifiers.parts.ratio_levels import (
    NEGLIGIBLE,
    RatioLevels,
    balanced,
    make_levels,
    per_mass,
    prefix_bounds,
    running_sum,
)

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


@dataclass(frozen=True)
class LookaheadMultipathBlockVerifier:
    """Block verification of the path of the lowest rank (ours).

    Every path has a law of its rank that follows from the rows along it; so has the selected path a law,
    which verification takes in place of q. It is exact to rounding, and in rationals, whatever ``steps``, the
    least number of ranks: docs/rules/lookahead_multipath_block.md. Few ranks cost tokens only. In a tree
    the paths begin where its stem ends. The selection sees how far a path goes on: where that depends on
    other paths, its law is another one.
    """

    steps: int = 64
    traits = Traits(any_order=True)
    accepts: ClassVar = frozenset({Siblings.PATHS})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select one path of every request, by one decision, and verify it."""
        ways = _ways(drafts)
        depths = self._depths(drafts, ways)
        xp = namespace(drafts.tokens)
        ranks = xp.reshape(depths[-1].children.law, (drafts.batch, ways.count, -1))
        if ways.places is not None:
            ranks = with_absent(ranks, ways.places[:, :, 0] >= 0)
        path = decisions.categorical(selection_chances(ranks))
        selected = arange_like(path, drafts.batch) * ways.count + path
        chosen = [depth.law(selected) for depth in depths]
        along, laws = ways.with_stem(drafts, path, chosen)
        after = [drafts.target.row(along.after(depth)) for depth in range(len(laws) + 1)]
        target = working_rows(xp.stack(after, axis=1))
        return Verdict(*verify_selected(along, target, xp.stack(laws, axis=1), decisions), drafts)

    def _depths(self, drafts: Drafts, ways: "_Ways") -> list["_Depth"]:
        """Divide the ranks at every node of every path; paths that ended keep theirs."""
        xp = namespace(drafts.tokens)
        every = arange_like(drafts.tokens, drafts.batch * ways.count)
        begins = ways.begin(every)
        prefix, depths = begins, list[_Depth]()
        for position in range(ways.length):
            token, drafted = ways.tokens(drafts, position)
            target, draft = (
                _flat(rows, ways.nodes(drafts, position)) for rows in (drafts.target, drafts.draft)
            )
            if drafted is not None:
                draft = xp.where(drafted[:, None], draft, target)
            # Prefixes that agree in their rows, and in all that went before, are divided once.
            chosen, node = distinct_requests(target, draft, prefix)
            if depths:
                division = divide_further(target[chosen], draft[chosen], depths[-1].children.only(chosen))
            else:
                division = divide_root(target[chosen], draft[chosen], begins[chosen], self.steps)
            ratio = divide(target[every, token], draft[every, token], otherwise=0)
            children = division.child(node, token, ratio)
            prefix = node * drafts.vocab_size + token
            if drafted is not None:
                if depths:
                    children = _chosen(drafted, children, depths[-1].children)
                prefix = xp.where(drafted, prefix, -1 - every)  # a path that ended is like no other one
            depths.append(_Depth(draft, node, division, children))
        return depths


@dataclass(frozen=True)
class _Depth:
    """One position of N = B K paths: rows ``draft`` [N, V], nodes ``node`` int [N] of ``division``."""

    draft: Array
    node: Array
    division: Division
    children: PrefixNode

    def law(self, selected: Array) -> Array:
        """Return s(. | v) at the nodes of the paths ``selected`` int [B], [B, V]."""
        return self.draft[selected] * self.division.rate(self.node[selected])


@dataclass(frozen=True)
class _Ways:
    """K independent paths of at most L drafts, from where the stem of each tree ends.

    ``places`` int [B, K, L], then `ENDED`, and ``start`` int [B], the place before them; both None where the
    drafts are K paths of one length, whose places are known.
    """

    count: int
    length: int
    places: Array | None = None
    start: Array | None = None

    def begin(self, every: Array) -> Array:
        """Return how many paths the request of each of all B K paths has, at least 1, int [B K]."""
        if self.places is None:
            return 0 * every + self.count
        xp = namespace(every)
        begun = xp.sum(xp.astype(self.places[:, :, 0] >= 0, xp.int64), axis=1)[every // self.count]
        return xp.where(begun > 0, begun, 1)

    def nodes(self, drafts: Drafts, position: int) -> Sequence[Array | int]:
        """Return the place before the draft at ``position`` of each path: K numbers, or int [B] each."""
        if self.places is None:
            return [(position - 1) * self.count + path if position else ROOT for path in range(self.count)]
        xp, place = namespace(drafts.tokens), self.places[:, :, position]
        request = arange_like(place, drafts.batch)[:, None]
        above = xp.where(place >= 0, drafts.parents[request, kept(place >= 0, place)], ROOT)
        return [above[:, path] for path in range(self.count)]

    def tokens(self, drafts: Drafts, position: int) -> tuple[Array, Array | None]:
        """Return the drafts at ``position``, int [B K], and whether there are such; None: all are there."""
        xp = namespace(drafts.tokens)
        if self.places is None:
            level = drafts.tokens[:, position * self.count : (position + 1) * self.count]
            return xp.reshape(level, (-1,)), None
        place = self.places[:, :, position]
        drafted, request = place >= 0, arange_like(place, drafts.batch)[:, None]
        token = kept(drafted, drafts.tokens[request, kept(drafted, place)])
        return xp.reshape(token, (-1,)), xp.reshape(drafted, (-1,))

    def with_stem(self, drafts: Drafts, path: Array, laws: Sequence[Array]) -> tuple[Path, Sequence[Array]]:
        """Return the whole path of which ``path`` int [B] is the end, and the rows it was selected by."""
        if self.places is None or self.start is None:
            return drafts.path_to((self.length - 1) * self.count + path), laws
        xp, way = namespace(path), pick(self.places, path)
        every = arange_like(way, way.shape[1])[None, :]
        end = xp.max(xp.where(way >= 0, every, -1), axis=1)
        along = drafts.path_to(xp.where(end >= 0, pick(way, kept(end >= 0, end)), self.start))
        stem = drafts.path_to(self.start).lengths
        selected, rows = xp.stack(list(laws), axis=1), []
        for depth in range(along.tokens.shape[1]):
            at = depth - stem
            inside = kept(at >= 0, xp.where(at < len(laws), at, len(laws) - 1))
            drawn = working_rows(drafts.draft.row(along.after(depth)))
            rows.append(xp.where((at >= 0)[:, None], pick(selected, inside), drawn))
        return along, rows


def _ways(drafts: Drafts) -> _Ways:
    """Return the independent paths of every tree."""
    if drafts.num_paths is not None:
        return _Ways(drafts.num_paths, drafts.depth)
    places = places_of(drafts)
    end = stem_end(drafts, places)
    ways = independent_paths(drafts, places, end)
    return _Ways(ways.shape[1], ways.shape[2], ways, end)


def _chosen(mask: Array, one: PrefixNode, other: PrefixNode) -> PrefixNode:
    """Return the prefixes of ``one`` where ``mask`` [N] holds, those of ``other`` elsewhere."""
    where = namespace(one.law).where
    law, worth = (where(mask[:, None], *pair) for pair in ((one.law, other.law), (one.worth, other.worth)))
    return PrefixNode(law, worth, where(mask, one.demand, other.demand))


def _flat(rows: Rows, nodes: Sequence[Array | int]) -> Array:
    """Return the rows after K ``nodes`` of every request, normalised, [B K, V]."""
    stacked = namespace(rows.row(ROOT)).stack([rows.row(node) for node in nodes], axis=1)
    return working_rows(stacked.reshape(-1, rows.vocab_size))


ENDED = -1
"""In the place of a token: the path has ended, or there is none."""


def stem_end(drafts: Drafts, places: Places) -> Array:
    """Return the first node, from the root down, that has not just one child: a place or `ROOT`, int [B]."""
    xp = namespace(drafts.tokens)
    end, siblings = filled(drafts.tokens[:, 0], ROOT), places.count
    for place in range(drafts.places):  # a parent comes before its children
        only = places.present[:, place] & (siblings[:, place] == 1)
        end = xp.where(only & (drafts.parents[:, place] == end), place, end)
    return end


def independent_paths(drafts: Drafts, places: Places, start: Array) -> Array:
    """Return the places of the paths from ``start`` int [B], [B, K, L], then `ENDED`; K, L of the largest."""
    xp = namespace(drafts.tokens)
    request = arange_like(start, drafts.batch)
    equal = places.siblings & (drafts.tokens[:, :, None] == drafts.tokens[:, None, :])
    path, depth = filled(drafts.tokens, ENDED), filled(drafts.tokens, ENDED)
    for place in range(drafts.places):
        above, rank = places.row[:, place] - 1, places.rank[:, place]
        drafts_above = equal[request, kept(above >= 0, above)]
        number = xp.cumulative_sum(xp.astype(drafts_above, xp.int64), axis=1)
        own = drafts_above & (number == rank[:, None] + 1)
        draft = xp.argmax(xp.astype(own, xp.int64), axis=1)
        follows = (above >= 0) & xp.any(own, axis=1)
        begins = places.present[:, place] & (above == start)
        path[:, place] = xp.where(begins, rank, xp.where(follows, path[request, draft], ENDED))
        depth[:, place] = xp.where(begins, 0, kept(path[:, place] >= 0, depth[request, draft] + 1))
    size = (drafts.batch, max(1, 1 + int(xp.max(path))) + 1, 1 + int(xp.max(depth)) + (depth.shape[1] == 0))
    ways = filled(unfilled(size, path), ENDED)
    at = arange_like(path, drafts.places)[None, :] + 0 * path
    ways[request[:, None], path, kept(path >= 0, depth)] = at  # those on no path come last
    return ways[:, :-1]
