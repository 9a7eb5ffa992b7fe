"""Block verification of one path of known law: the weights w, the chances to stop, and the decision."""

from verifiers.arrays import (
    Array,
    divide,
    minimum_one,
    minus_multiple,
    namespace,
    ones,
    pick,
    unfilled,
    zeros,
)
from verifiers.interface import DecisionSource
from verifiers.parts.residual import acceptance_ratios, draw_correction, last_success


def block_weights(target_rows: Array, draft_rows: Array, tokens: Array) -> Array:
    """Return w_i = min(1, w_{i-1} p(x_i)/q(x_i)), [B, L+1], w_0 = 1 (arXiv 2403.10444, eq. 3)."""
    xp = namespace(target_rows)
    ratios = acceptance_ratios(target_rows, draft_rows, tokens)
    weight = ones(ratios[:, :1])
    weights = [weight]
    for i in range(tokens.shape[1]):
        weight = minimum_one(weight * ratios[:, i : i + 1])
        weights.append(weight)
    return xp.concat(weights, axis=1)


def _surplus(target_rows: Array, draft_rows: Array, weights: Array, place: Array) -> Array:
    """Return S_i = sum_x (w_i p(x) - q(x))+, [B, L]."""
    xp = namespace(target_rows)
    sums, below = [], place
    for i in range(draft_rows.shape[1]):
        # All rows in one place, which stays in the cache: new memory costs more than the arithmetic.
        below = minus_multiple(draft_rows[:, i], weights[:, i : i + 1], target_rows[:, i], out=below)
        below = xp.minimum(below, zeros(below[:, :1]), out=below)
        sums.append(-xp.sum(below, axis=-1, keepdims=True))
    return xp.concat(sums, axis=1)


def stop_chances(target_rows: Array, draft_rows: Array, weights: Array, place: Array = None) -> Array:
    """Return h_i [B, L+1], the chance to stop after i tokens once every longer prefix has been refused.

    h_L = w_L, else h_i = S_i / (S_i + 1 - w_i) with S_i as in `_surplus` (2403.10444, eq. 4).
    Where the denominator vanishes p = q and w_i = 1: every longer prefix is accepted, so h_i is never used.
    What is computed of whole rows is written to ``place``, [B, V] of the weights' type, if it is given.
    """
    xp = namespace(target_rows)
    length = draft_rows.shape[1]
    inner = _surplus(target_rows, draft_rows, weights, place)
    inner = divide(inner, inner + (1 - weights[:, :length]), otherwise=1)
    return xp.concat([inner, weights[:, length:]], axis=1)


def verify_path(tokens: Array, target: Array, draft: Array, decisions: DecisionSource) -> tuple[Array, Array]:
    """Run block verification on one path per request; return the accepted length and the next token, int [B].

    tokens int [B, L]; target [B, L+1, V]; draft [B, L, V], the law by which the path was drawn or selected.
    """
    weights = block_weights(target, draft, tokens)
    place = unfilled(draft[:, 0].shape, weights) if weights.dtype == draft.dtype else None
    tau = decisions.categorical(last_success(stop_chances(target, draft, weights, place)))
    return tau, draw_correction(target, draft, tau, pick(weights, tau), decisions, place=place)
