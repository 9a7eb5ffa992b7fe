"""The pieces that single-path rules share: how far a path is accepted, and what is drawn after it."""

from verifiers.arrays import (
    Array,
    divide,
    in_working_precision,
    kept,
    minus_multiple,
    namespace,
    ones,
    overwritten,
    positive_part,
)
from verifiers.interface import DecisionSource, Path, Rows


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


def acceptance_ratios(path: Path, target: Rows, draft: Rows) -> Array:
    """Return p(x_i) / q(x_i) along a path, [B, L]; 0 where q(x_i) is not positive, and behind the path's end.

    No drafter draws such a token. Where q is broken (NaN, zeros) refusing it leaves the token to the target.
    """
    chosen = (in_working_precision(rows.entries(path.contexts, path.tokens)) for rows in (target, draft))
    ratios = divide(*chosen, otherwise=0)
    return ratios if path.length is None else kept(path.present, ratios)


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


def draw_correction(  # noqa: PLR0917
    path: Path,
    target: Rows,
    draft: Rows,
    tau: Array,
    scale: Array,
    decisions: DecisionSource,
    *,
    place: Array = None,
) -> Array:
    """Draw the token after an accepted prefix: from (scale p - q)+ inside the path, from p after all of it.

    tau int [B], scale [B] (1 for the token rule, w_tau for the block rule), in working precision, which
    low-precision rows take from it; ``place`` [B, V] may be overwritten. Returns int [B].
    """
    length = path.tokens.shape[1] if path.length is None else path.length
    inside = tau < length
    times = divide(kept(inside, ones(scale)), scale, otherwise=0)[:, None]
    node = path.node(tau)
    q = in_working_precision(draft.row(node, out=place))
    if path.length is not None:  # a row behind the end of a path means nothing: it may be NaN
        q = kept(inside[:, None], q)
    p = in_working_precision(target.row(node))
    # All in one place: new arrays of this size can cost more than the arithmetic.
    left = minus_multiple(p, times, q, out=q)
    left = positive_part(left, out=left)
    return decisions.categorical(overwritten(left, _nothing(left), p))
