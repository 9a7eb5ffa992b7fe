"""What rules for one path share: how far it is accepted, what is drawn after it, and block verification.

Block verification takes a path of known law: the weights w, the chances to stop, and the decision.
"""

from verifiers.arrays import (
    Array,
    arange_like,
    divide,
    in_working_precision,
    kept,
    minimum_one,
    minus_multiple,
    namespace,
    ones,
    overwritten,
    pick,
    positive_part,
    unfilled,
    zeros,
)
from verifiers.interface import ROOT, DecisionSource, Path, Rows
from verifiers.rows import PathRows


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


def block_weights(ratios: Array) -> Array:
    """Return w_i = min(1, w_{i-1} p(x_i)/q(x_i)), [B, L+1], w_0 = 1, given p/q [B, L] (2403.10444, eq. 3)."""
    weight = ones(ratios[:, :1])
    weights = [weight]
    for i in range(ratios.shape[1]):
        weight = minimum_one(weight * ratios[:, i : i + 1])
        weights.append(weight)
    return namespace(ratios).concat(weights, axis=1)


def _surplus(path: Path, target: Rows, draft: Rows, weights: Array, place: Array) -> Array:
    """Return S_i = sum_x (w_i p(x) - q(x))+, [B, L]."""
    xp = namespace(weights)
    sums, below = [], place
    for i in range(path.tokens.shape[1]):
        # All rows in one place, which stays in the cache: new memory costs more than the arithmetic.
        p, q = (rows.row(path.after(i)) for rows in (target, draft))
        below = minus_multiple(q, weights[:, i : i + 1], p, out=below)
        below = xp.minimum(below, zeros(below[:, :1]), out=below)
        sums.append(-xp.sum(below, axis=-1, keepdims=True))
    return xp.concat(sums, axis=1)


def stop_chances(path: Path, target: Rows, draft: Rows, weights: Array, place: Array = None) -> Array:
    """Return h_i [B, L+1], the chance to stop after i tokens once every longer prefix has been refused.

    h = w at the path's end, else h_i = S_i / (S_i + 1 - w_i) with S_i as in `_surplus` (2403.10444, eq. 4).
    Where the denominator vanishes p = q and w_i = 1: every longer prefix is accepted, so h_i is never used.
    What is computed of whole rows is written to ``place``, [B, V] of the weights' type, if it is given.
    """
    xp, length = namespace(weights), path.tokens.shape[1]
    inner = _surplus(path, target, draft, weights, place)
    inner = divide(inner, inner + (1 - weights[:, :length]), otherwise=1)
    chances = xp.concat([inner, weights[:, length:]], axis=1)
    if path.length is None:
        return chances
    position, end = arange_like(path.tokens, length + 1)[None, :], path.length[:, None]
    return kept(position <= end, xp.where(position == end, weights, chances))


def verify_path(path: Path, target: Rows, draft: Rows, decisions: DecisionSource) -> tuple[Array, Array]:
    """Run block verification on one path per request; return the accepted length and the next token, int [B].

    ``draft``: the rows by which the path was drawn or selected.
    """
    weights = block_weights(acceptance_ratios(path, target, draft))
    row = draft.row(ROOT)
    place = unfilled(row.shape, weights) if weights.dtype == row.dtype else None
    tau = decisions.categorical(last_success(stop_chances(path, target, draft, weights, place)))
    return tau, draw_correction(path, target, draft, tau, pick(weights, tau), decisions, place=place)


def chain(tokens: Array, target: Array, draft: Array, length: Array = None) -> tuple[Path, Rows, Rows]:
    """Return one path given by arrays, and the rows of target and draft along it.

    ``tokens`` int [B, L], of which ``length`` int [B] count; ``target`` [B, L+1, V]; ``draft`` [B, L, V].
    """
    longest = draft.shape[1]
    path = Path(tokens, arange_like(tokens, longest)[None, :], length, 1)
    return path, PathRows(target[:, None], longest), PathRows(draft[:, None], longest)


def verify_selected(path: Path, target: Array, laws: Array, decisions: DecisionSource) -> tuple[Array, Array]:
    """Run block verification on a selected path; return the accepted place and the next token, int [B].

    ``target`` [B, L+1, V]; ``laws`` [B, L, V]: the rows by which the path was selected, in place of q.
    """
    tau, next_token = verify_path(*chain(path.tokens, target, laws, path.length), decisions)
    return path.node(tau), next_token
