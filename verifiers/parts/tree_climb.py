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
at which the climb ends.
"""

from collections.abc import Callable
from typing import TypeAlias

from verifiers.arrays import (
    Array,
    arange_like,
    divide,
    in_working_precision,
    kept,
    minimum_one,
    namespace,
    ones,
    positive_part,
)
from verifiers.interface import DecisionSource
from verifiers.parts.tree_places import Places
from verifiers.trees import ROOT, TreeDrafts, TreeVerdict

Law: TypeAlias = Callable[[Array], Array]
"""Returns the law [B, V] of a place int [B], given the siblings before it; anything for empty places."""


def climb(
    drafts: TreeDrafts, places: Places, law_of: Law, order: Array, decisions: DecisionSource
) -> TreeVerdict:
    """Climb the tree of every request.

    ``law_of`` is called for each place in ``order`` int [B, N], a permutation with parents before their
    children. Places that repeat an earlier sibling are passed over.
    """
    xp = namespace(drafts.target_probs)
    target = xp.asarray(in_working_precision(drafts.target_probs), copy=True)
    request = arange_like(order, drafts.batch)
    used = places.present & ~places.repeated
    weight = ones(target[:, :, 0])
    for step in range(drafts.places):
        place = order[:, step]
        at, token, tested = (of[request, place] for of in (places.row, drafts.tokens, used))
        token = kept(tested, token)
        p, law, a = target[request, at], law_of(place), weight[request, at]
        entered = minimum_one(a * divide(p[request, token], law[request, token], otherwise=0))
        weight[request, place + 1] = kept(tested, entered)
        left = positive_part(a[:, None] * p - law)
        surplus = xp.sum(left, axis=-1)
        shrunk = divide(left, surplus[:, None], otherwise=0)
        target[request, at] = xp.where((tested & (surplus > 0))[:, None], shrunk, p)
        # Where the denominator vanishes the child was accepted with certainty: 1 is never used.
        weight[request, at] = xp.where(tested, divide(surplus, surplus + (1 - a), otherwise=1), a)
    weight[:, 0] = ones(weight[:, 0])
    ends = _ends(weight, places.row, order)
    node = decisions.categorical(ends)
    return TreeVerdict(node + ROOT, decisions.categorical(target[request, node]), drafts)


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
