"""K-SEQ: every draft is tested once with the target scaled down by a factor rho.

A test passes with probability min(1, p/(rho q)), so one of n passes with probability 1 - r^n, where r = 1 -
beta and beta = sum_x min(p/rho, q). What the tests emit must nowhere exceed p: 1 - r^n <= rho beta. With d =
sum_x (p - rho q)+, the target mass that no draft covers, rho beta = 1 - d and r = (d + rho - 1) / rho; so

    rho is valid iff d <= r^n,    and    left(x) = (p - rho q)+ + min(p, rho q) (r^n - d) / (1 - d)

are the masses of the residual, r^n in all. Nothing cancels here, however near p and q are.
"""

from collections.abc import Callable

from verifiers.arrays import (
    Array,
    distinct_requests,
    divide,
    kept,
    minimum_one,
    minus_multiple,
    namespace,
    ones,
    pick,
    pick_each,
    positive_part,
    raised_to,
    working_rows,
    zeros,
)
from verifiers.interface import DecisionSource, Traits
from verifiers.parts.path import first_success
from verifiers.parts.walk import INDEPENDENT, ActiveDecisions, Node, Walk

_BISECTIONS, _BISECTIONS_OF_FLOAT32 = 50, 24


def _uncovered_and_refused(
    target: Array, draft: Array, rho: Array, to_the_nth: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return d and r^n, [B]; see the module."""
    left = minus_multiple(target, rho[:, None], draft)
    uncovered = namespace(target).sum(positive_part(left, out=left), axis=-1)
    return uncovered, to_the_nth((uncovered + (rho - 1)) / rho)


def smallest_rho(target: Array, draft: Array, num_drafts: Array) -> Array:
    """Return the smallest valid rho in [1, n], [B], rounded up by at most n 2^-50; 1 where p = q.

    target and draft [B, V], ``num_drafts`` int [B] >= 1. Rows narrower than float64 are searched in float32,
    to n 2^-24. Equal rows are searched once.
    """
    chosen, copy = distinct_requests(target, draft, num_drafts)
    return _smallest_rho(working_rows(target[chosen]), working_rows(draft[chosen]), num_drafts[chosen])[copy]


def _smallest_rho(target: Array, draft: Array, num_drafts: Array) -> Array:
    """Bisect for distinct normalised requests: d falls and r^n grows with rho, and n is always valid."""
    xp, to_the_nth = namespace(target), raised_to(num_drafts)

    def is_valid(rho: Array) -> Array:
        uncovered, refused = _uncovered_and_refused(target, draft, rho, to_the_nth)
        return uncovered <= refused

    low = ones(target[:, 0])
    high = xp.where(is_valid(low), low, low * num_drafts)
    if not xp.any(low < high):  # of one draft, or of p = q
        return high
    for _ in range(_BISECTIONS_OF_FLOAT32 if low.dtype == xp.float32 else _BISECTIONS):
        middle = (low + high) / 2
        enough = is_valid(middle)
        high = xp.where(enough, middle, high)
        low = xp.where(enough, low, middle)
    return high


def accept_first_of_sequence(node: Node, decisions: DecisionSource) -> Array:
    """Apply K-SEQ with the smallest valid rho."""
    return accept_scaled(node, smallest_rho(node.target, node.draft, node.num_drafts), decisions)


def accept_scaled(node: Node, rho: Array, decisions: DecisionSource) -> Array:
    """Accept the first draft that passes with probability min(1, p/(rho q)), else draw the residual.

    Of law p only if ``rho`` [B] is valid; see `smallest_rho`.
    """
    xp = namespace(node.target)
    target, draft = working_rows(node.target), working_rows(node.draft)
    scaled = rho[:, None] * draft
    ratio = divide(pick_each(target, node.tokens), pick_each(scaled, node.tokens), otherwise=0)
    choice = decisions.categorical(first_success(kept(node.present, minimum_one(ratio))))
    uncovered, refused = _uncovered_and_refused(target, draft, rho, raised_to(node.num_drafts))
    covered = xp.where(target < scaled, target, scaled)
    spare = divide(refused - uncovered, xp.sum(covered, axis=-1), otherwise=0)
    left = positive_part(target - covered + covered * spare[:, None])
    left = xp.where(xp.sum(left, axis=-1, keepdims=True) > 0, left, target)
    none = choice == node.tokens.shape[1]
    redrawn = ActiveDecisions(decisions, none).categorical(left)
    return xp.where(none, redrawn, pick(node.tokens, xp.where(none, zeros(choice), choice)))


K_SEQ = Walk(accept_first_of_sequence, INDEPENDENT, Traits(walks=True))
"""SpecTr's K-SEQ (Sun et al., arXiv 2310.15141, algorithm 2), rho chosen at every node."""
