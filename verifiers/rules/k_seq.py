"""K-SEQ: every draft is tested once with the target scaled down by a factor rho."""

from dataclasses import dataclass

from verifiers.arrays import (
    Array,
    as_arithmetic_of,
    as_float64,
    divide,
    minimum_one,
    namespace,
    pick,
    pick_each,
    positive_part,
)
from verifiers.interface import DecisionSource, Drafts, Verdict
from verifiers.parts.repeated_rows import distinct_requests
from verifiers.parts.residual import first_success
from verifiers.parts.walk import ActiveDecisions, Node, walk

_BISECTIONS = 50
_ROUND_UP = 1 + 2.0**-40


def _overlap(target: Array, draft: Array, rho: Array) -> Array:
    """Return beta(rho) = sum_x min(p/rho, q), [B]."""
    xp = namespace(target)
    scaled = target / rho[:, None]
    return xp.sum(xp.where(scaled < draft, scaled, draft), axis=-1)


def _reach(beta: Array, num_drafts: Array, most: int) -> Array:
    """Return (1 - (1 - beta)^n) / beta = sum_{j<n} (1 - beta)^j, [B], without dividing or cancelling."""
    xp = namespace(beta)
    power = beta * 0 + 1
    total = beta * 0
    for j in range(most):
        total = total + xp.where(num_drafts > j, power, power * 0)
        power = power * (1 - beta)
    return total


def smallest_rho(target: Array, draft: Array, num_drafts: Array, most: int) -> Array:
    """Return a rho [B] with reach(beta(rho)) <= rho, at or just above the smallest one in [1, n].

    Any such rho is lossless, so it is found in float64 and rounded up; n itself serves where rounding
    leaves a doubt in the arithmetic of the caller. ``most`` bounds ``num_drafts``, int [B]. Equal rows are
    searched once.
    """
    chosen, copy = distinct_requests(target, draft, num_drafts)
    return _smallest_rho(target[chosen], draft[chosen], num_drafts[chosen], most)[copy]


def _smallest_rho(target: Array, draft: Array, num_drafts: Array, most: int) -> Array:
    """Bisect for distinct requests."""
    xp = namespace(num_drafts)
    p, q = as_float64(target), as_float64(draft)
    high = xp.astype(num_drafts, xp.float64)
    low = high * 0 + 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = _reach(_overlap(p, q, middle), num_drafts, most) <= middle
        high = xp.where(enough, middle, high)
        low = xp.where(enough, low, middle)
    limit = xp.astype(num_drafts, xp.float64)
    rounded = high * _ROUND_UP
    rho = as_arithmetic_of(target, xp.where(rounded < limit, rounded, limit))
    valid = _reach(_overlap(target, draft, rho), num_drafts, most) <= rho
    return namespace(target).where(valid, rho, as_arithmetic_of(target, limit))


def accept_first_of_sequence(node: Node, decisions: DecisionSource) -> Array:
    """Apply K-SEQ with the smallest valid rho."""
    rho = smallest_rho(node.target, node.draft, node.num_drafts, node.tokens.shape[1])
    return accept_scaled(node, rho, decisions)


def accept_scaled(node: Node, rho: Array, decisions: DecisionSource) -> Array:
    """Accept the first draft that passes with probability min(1, p/(rho q)), else draw the residual.

    Of law p only if ``rho`` [B] is valid, that is reach(beta(rho)) <= rho; see `smallest_rho`.
    """
    xp = namespace(node.target)
    most = node.tokens.shape[1]
    ratio = divide(pick_each(node.target, node.tokens), pick_each(node.draft, node.tokens), otherwise=0)
    chance = minimum_one(ratio / rho[:, None])
    choice = decisions.categorical(first_success(xp.where(node.present, chance, chance * 0)))
    scaled = node.target / rho[:, None]
    served = xp.where(scaled < node.draft, scaled, node.draft)
    reach = _reach(_overlap(node.target, node.draft, rho), node.num_drafts, most)
    left = positive_part(node.target - served * reach[:, None])
    left = xp.where(xp.sum(left, axis=-1, keepdims=True) > 0, left, node.target)
    refused = choice == most
    redrawn = ActiveDecisions(decisions, refused).categorical(left)
    accepted = pick(node.tokens, xp.where(refused, choice * 0, choice))
    return xp.where(refused, redrawn, accepted)


@dataclass(frozen=True)
class KSeqVerifier:
    """SpecTr's K-SEQ (Sun et al., arXiv 2310.15141, algorithm 2), rho chosen at every node."""

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Walk down the draft tree of every request."""
        return walk(drafts, decisions, accept_first_of_sequence)
