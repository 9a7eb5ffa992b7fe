"""Judging a draft tree from the leaves up to the root, as traversal verification does (arXiv 2505.12398).

A node is entered with a weight a, the chance that a node of its subtree, itself included, is to be accepted.
Its children are tested in turn. One of law q (given the siblings tested before) is entered with
min(1, a p(x)/q(x)); once all of its subtree is refused, the node has left

    s = Σ (a p − q)+,      p <- (a p − q)+ / s,      a <- s / (s + 1 − a).                               (1)

After the last child the node itself is accepted with a, the root always, and the next token has law p.

*Lossless*, by induction from the leaves: a child entered with w is accepted, at whatever depth, with chance
w on average over the tokens below it, whatever the shape there. So x is served min(a p, q) by its test, and
(1) is what remains, s of a mass of 1 − Σ min(a p, q) = s + 1 − a. This needs the law of each child given the
siblings tested before it, and that its token is not looked at before it is decided that there is a child.

The weights do not depend on decisions. They are computed from the root down, and one decision picks the node
at which the climb ends. Siblings are tested one after the other, so one row of each model is at work; the row
that is left at the chosen node is computed again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from verifiers.arrays import (
    Array,
    arange_like,
    divide,
    filled,
    in_working_precision,
    kept,
    minimum_one,
    namespace,
    ones,
    pick_each,
    positive_part,
    zeros,
)
from verifiers.interface import ROOT, DecisionSource, Drafts, Verdict


@dataclass(frozen=True)
class Places:
    """The places of a draft tree, for B requests.

    ``row`` int [B, N]: the row of each place's parent, 0 where it is empty; ``present`` bool [B, N]: whether
    there is a token, see `Drafts`;
    ``earlier`` bool [B, N, N]: whether place j is a sibling drawn before place i; ``repeated`` bool [B, N]:
    whether one of these is the same token.
    """

    row: Array
    present: Array
    earlier: Array
    repeated: Array

    @property
    def siblings(self) -> Array:
        """Whether place j is a sibling of place i, or place i itself, bool [B, N, N]."""
        xp = namespace(self.earlier)
        number = arange_like(self.row, self.row.shape[1])
        return self.earlier | xp.matrix_transpose(self.earlier) | (number[:, None] == number)

    @property
    def count(self) -> Array:
        """How many siblings there are at each place, itself included, int [B, N]."""
        xp = namespace(self.earlier)
        return xp.sum(xp.astype(self.siblings, xp.int64), axis=-1)

    @property
    def rank(self) -> Array:
        """How many siblings come before each place, int [B, N]."""
        xp = namespace(self.earlier)
        return xp.sum(xp.astype(self.earlier, xp.int64), axis=-1)


def places_of(drafts: Drafts) -> Places:
    """Return the siblings of every place."""
    xp = namespace(drafts.parents)
    present, number = drafts.present, arange_like(drafts.parents, drafts.places)
    same = drafts.parents[:, :, None] == drafts.parents[:, None, :]
    earlier = same & present[:, :, None] & present[:, None, :] & (number[None, :] < number[:, None])
    equal = drafts.tokens[:, :, None] == drafts.tokens[:, None, :]
    repeated = xp.any(earlier & equal, axis=-1)
    return Places(kept(present, drafts.parents + 1), present, earlier, repeated)


Law: TypeAlias = Callable[[Array, Array], Array]
"""Returns the law [B, V] of a place int [B], given the node above it, int [B], and the siblings before it;
anything for empty places."""


@dataclass(frozen=True)
class _Surplus:
    """What is left at one node of every request: the target's row [B, V], and the weight a [B]."""

    target: Array
    weight: Array

    def after(self, ratio: Array, law: Array, tested: Array) -> tuple["_Surplus", Array]:
        """Return what is left once a child of this ``law`` was refused, and the weight of that child.

        ``ratio`` [B] is p(x)/q(x) of the child. Nothing happens where it is not ``tested``.
        """
        xp, a = namespace(self.target), self.weight
        left = positive_part(a[:, None] * self.target - law)
        surplus = xp.sum(left, axis=-1)
        shrunk = divide(left, surplus[:, None], otherwise=0)
        target = xp.where((tested & (surplus > 0))[:, None], shrunk, self.target)
        # Where the denominator vanishes the child was accepted with certainty: 1 is never used.
        weight = xp.where(tested, divide(surplus, surplus + (1 - a), otherwise=1), a)
        return _Surplus(target, weight), kept(tested, minimum_one(a * ratio))


def climb(drafts: Drafts, places: Places, law_of: Law, order: Array, decisions: DecisionSource) -> Verdict:
    """Climb the tree of every request.

    ``law_of`` is called for each place, siblings in the ``order`` int [B, N], a permutation with parents
    before their children. Places that repeat an earlier sibling are passed over.
    """
    xp = namespace(order)
    request, used = arange_like(order, drafts.batch), places.present & ~places.repeated
    # The children of a node one after the other, the nodes as they are numbered: parents come first.
    family = xp.where(places.present, places.row, drafts.places + 1)
    order = xp.take_along_axis(order, xp.argsort(pick_each(family, order), axis=1, stable=True), axis=1)
    family = pick_each(family, order)

    def row_after(node: Array) -> Array:
        return in_working_precision(drafts.target.row(node))

    def refuse(left: _Surplus, above: Array, place: Array, tested: Array) -> tuple[_Surplus, Array]:
        law, token = law_of(place, above), kept(tested, drafts.tokens[request, place])
        ratio = divide(left.target[request, token], law[request, token], otherwise=0)
        return left.after(ratio, law, tested)

    above = filled(order[:, 0], ROOT)
    root = row_after(above)
    left = _Surplus(root, ones(root[:, 0]))
    # Below an empty place nothing counts: it is never entered.
    entered = xp.stack([left.weight, *[zeros(left.weight)] * drafts.places], axis=1)
    weight = xp.asarray(entered, copy=True)
    for step in range(drafts.places):
        place = order[:, step]
        parent = places.row[request, place] + ROOT
        begins = parent != above
        left = _Surplus(
            xp.where(begins[:, None], row_after(parent), left.target),
            xp.where(begins, weight[request, parent - ROOT], left.weight),
        )
        left, chance = refuse(left, parent, place, used[request, place])
        entered[request, place - ROOT] = weight[request, place - ROOT] = chance
        weight[request, parent - ROOT], above = left.weight, parent
    weight[:, 0] = ones(weight[:, 0])
    node = decisions.categorical(_ends(weight, places.row, order)) + ROOT
    left = _Surplus(row_after(node), entered[request, node - ROOT])
    start = xp.sum(xp.astype(family < (node - ROOT)[:, None], xp.int64), axis=1)
    for step in range(drafts.fan_out):
        at = xp.where(start + step < drafts.places, start + step, 0 * start)
        place = order[request, at]
        tested = (family[request, at] == node - ROOT) & used[request, place]
        left, _ = refuse(left, node, place, tested)
    return Verdict(node, decisions.categorical(left.target), drafts)


def _ends(weight: Array, row: Array, order: Array) -> Array:
    """Return the chance [B, N+1] that each node is the first accepted one, the root being node 0.

    ``weight`` [B, N+1] are the chances to be accepted once all below was refused; ``row``, ``order`` int
    [B, N]: the node above each place, and the order of the tests.
    """
    request = arange_like(order, order.shape[0])
    refused = 1 - weight  # of all nodes of the subtree
    for step in reversed(range(order.shape[1])):
        place = order[:, step]
        at = row[request, place]
        refused[request, at] = refused[request, at] * refused[request, place + 1]
    arrives = ones(weight)  # at a node, once its children so far were refused
    for step in range(order.shape[1]):
        place = order[:, step]
        at = row[request, place]
        arrives[request, place + 1] = arrives[request, at]
        arrives[request, at] = arrives[request, at] * refused[request, place + 1]
    return arrives * weight
