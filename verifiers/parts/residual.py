"""The pieces that single-path rules share: how far a path is accepted, and what is drawn after it."""

from verifiers.arrays import (
    Array,
    arange_like,
    divide,
    in_working_precision,
    kept,
    minus_multiple,
    namespace,
    ones,
    overwritten,
    pick,
    positive_part,
)
from verifiers.interface import DecisionSource


def residual(target: Array, draft: Array) -> Array:
    """Return (target - draft)+ as unnormalised weights [..., V]; the target where nothing is left.

    Nothing is left only where the two rows agree to rounding, and then the residual is drawn from with
    probability zero to rounding; the target row keeps that draw inside the target's support.

    >>> import numpy as np
    >>> residual(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])).tolist()
    [0.25, 0.25, 0.0]
    """
    left = positive_part(target - draft)
    return namespace(target).where(_nothing(left), target, left)


def _nothing(left: Array) -> Array:
    """Return bool [..., 1], whether nothing is left [..., V]; of NaN too, which is never to be drawn from."""
    return ~(namespace(left).sum(left, axis=-1, keepdims=True) > 0)


def along_path(rows: Array, tokens: Array) -> Array:
    """Return the probability of each drafted token: rows [B, L, V] and tokens int [B, L] give [B, L]."""
    batch, length = tokens.shape
    request = arange_like(tokens, batch)[:, None]
    position = arange_like(tokens, length)[None, :]
    return rows[request, position, tokens]


def acceptance_ratios(target_rows: Array, draft_rows: Array, tokens: Array) -> Array:
    """Return p(x_i) / q(x_i) along a path, [B, L]; 0 where q(x_i) is not positive.

    No drafter draws such a token. Where q is broken (NaN, zeros) refusing it leaves the token to the target.
    """
    length = tokens.shape[1]
    chosen = (along_path(rows, tokens) for rows in (target_rows[:, :length], draft_rows))
    return divide(*map(in_working_precision, chosen), otherwise=0)


def first_failure(success: Array) -> Array:
    """Weights [B, L+1] of the number of successes before the first failure, given success chances [B, L]."""
    return first_success(1 - success)


def first_success(success: Array) -> Array:
    """Weights [B, N+1] of the first index whose independent coin succeeds, N for none; chances [B, N]."""
    xp = namespace(success)
    missed = ones(success[:, :1])
    weights = []
    for i in range(success.shape[1]):
        chance = success[:, i : i + 1]
        weights.append(missed * chance)
        missed = missed * (1 - chance)
    return xp.concat([*weights, missed], axis=1)


def last_success(success: Array) -> Array:
    """Weights [B, N] of the largest index whose independent coin succeeds, given success chances [B, N]."""
    xp = namespace(success)
    return xp.flip(first_success(xp.flip(success, axis=1))[:, :-1], axis=1)


def draw_correction(
    target_rows: Array,
    draft_rows: Array,
    tau: Array,
    scale: Array,
    decisions: DecisionSource,
    *,
    place: Array = None,
) -> Array:
    """Draw the token after an accepted prefix: from (scale p - q)+ inside the draft, from p after all of it.

    target_rows [B, L+1, V], draft_rows [B, L, V], tau int [B], scale [B] (1 for the token rule, w_tau for
    the block rule), in working precision, which low-precision rows take from it; ``place`` [B, V] may be
    overwritten. Returns int [B].
    """
    xp = namespace(target_rows)
    inside = tau < draft_rows.shape[1]
    times = divide(kept(inside, ones(scale)), scale, otherwise=0)[:, None]
    at = xp.where(inside, tau, draft_rows.shape[1] - 1)
    draft = in_working_precision(pick(draft_rows, at, out=place))
    target = in_working_precision(pick(target_rows, tau))
    # All in one place: new arrays of this size can cost more than the arithmetic.
    left = minus_multiple(target, times, draft, out=draft)
    left = positive_part(left, out=left)
    return decisions.categorical(overwritten(left, _nothing(left), target))
