"""Select one draft by importance weights, then apply the token rule to the selected draft.

With n drafts at a node, draft i is selected with probability lambda(X_i) / sum_j lambda(X_j), where
lambda = p/q. The selected token has the law

    s(x) = n q(x) lambda(x) E[ 1 / (lambda(x) + lambda(Y_2) + ... + lambda(Y_n)) ],   Y independent from q,

(drafts are exchangeable), computed here by summing over the n - 1 other drafts as a multiset: exactly, in
any arithmetic, at a cost of C(V+n-2, n-1) terms a token. That is for toys; at full vocabularies use
`global_resolution`, whose selection is better and whose law is known in closed form.
"""

from math import comb

from verifiers.arrays import (
    Array,
    arange_like,
    distinct_requests,
    divide,
    filled,
    kept,
    namespace,
    ones,
    pick,
    pick_each,
    zeros,
)
from verifiers.errors import InvalidInputError
from verifiers.interface import DecisionSource, Traits
from verifiers.parts.transport_plan import multisets
from verifiers.parts.walk import INDEPENDENT, Node, Walk, accept_or_redraw, first_true, on_the_first_of_equals

MAX_MULTISETS = 200_000


def importance(target: Array, draft: Array) -> Array:
    """Return lambda = p/q [B, V], capped at 2^40 so that no weight overflows; 0 where q = 0."""
    xp = namespace(target)
    ratio = divide(target, draft, otherwise=0)
    cap = filled(ratio, 2**40)
    return xp.where(ratio < cap, ratio, cap)


def selected_law(draft: Array, weight: Array, num_drafts: int) -> Array:
    """Return the law s [B, V] of the draft selected among ``num_drafts`` independent ones; see the module.

    Where all drafts have weight zero the first is selected, which adds q(x) (sum of q at weight zero)^(n-1).
    """
    xp = namespace(draft)
    vocab = draft.shape[-1]
    if comb(vocab + num_drafts - 2, num_drafts - 1) > MAX_MULTISETS:
        raise InvalidInputError(
            f"drafts: canonical selection enumerates multisets of {num_drafts - 1} among {vocab} tokens; "
            "too many, use global_resolution"
        )
    expectation = zeros(draft)
    for others, orders in multisets(vocab, num_drafts - 1):
        chance = filled(draft[:, :1], orders)
        total = zeros(draft[:, :1])
        for other in others:
            chance = chance * draft[:, other : other + 1]
            total = total + weight[:, other : other + 1]
        expectation = expectation + divide(chance, weight + total, otherwise=0)
    unweighted = kept(~(weight > 0), draft)
    fallback = unweighted * xp.sum(unweighted, axis=-1, keepdims=True) ** (num_drafts - 1)
    return draft * weight * expectation * num_drafts + fallback


def select_by_importance(node: Node, decisions: DecisionSource) -> Array:
    """Select a draft by p/q, then accept or redraw it against the law of the selection."""
    xp = namespace(node.target)
    weight = importance(node.target, node.draft)
    drafted = pick_each(weight, node.tokens)
    lottery = kept(node.present, drafted)
    first = arange_like(drafted, drafted.shape[1])[None, :] == first_true(node.present)[:, None]
    empty = xp.sum(lottery, axis=-1, keepdims=True) <= 0
    chances = on_the_first_of_equals(xp.where(empty & first, ones(drafted), lottery), node.tokens)
    choice = decisions.categorical(chances)
    chosen, copy = distinct_requests(node.target, node.draft, node.num_drafts)
    draft, law = node.draft[chosen], node.draft[chosen]
    for count in range(2, node.tokens.shape[1] + 1):
        here = (node.num_drafts == count)[chosen, None]
        law = xp.where(here, selected_law(draft, weight[chosen], count), law)
    return accept_or_redraw(pick(node.tokens, choice), law[copy], node.target, decisions)


CANONICAL = Walk(
    select_by_importance, INDEPENDENT, Traits(largest_vocab_size=1024, walks=True, any_order=True)
)
"""Canonical decomposition (Khisti et al., arXiv 2410.18234), with importance-weighted selection."""
