"""The strict order of tokens by p/q, and the law of the highest of K independent paths in it.

Paths are compared token by token, each node ordering its children by p/q. With F the cumulative law of one
path in this order, counted from the lowest path up, the highest of K paths has the law

    q^Gamma(v) = F(v)^K - F(v-)^K = q(v) G(F(v-), F(v)),    G(a, b) = sum_{i<K} b^i a^(K-1-i).

The second form has no cancellation. Only the ratio alpha = F(v-) / F(v) of a node matters for what follows
below it: scaled by F(v), its children split the interval [alpha, 1] in proportion to q, so that

    q^Gamma(x | v) = q(x|v) G(a_x, b_x) / G(alpha, 1),   and the child continues with alpha = a_x / b_x.

Nothing here shrinks with depth, so long drafts are safe in float32.

The order must be strict and the same wherever it is used. Ratios are compared after rounding to float32:
ratios that agree up to rounding are ties in every arithmetic, and the smaller token then ranks higher.
"""

from verifiers.arrays import (
    Array,
    arange_like,
    distinct_requests,
    divide,
    filled,
    in_working_precision,
    kept,
    namespace,
    ones,
    pick,
    pick_each,
    power_sum,
    zeros,
)

_SHORT = 16
"""Tokens of a row that is ranked sooner than it is compared with others."""


def path_row(rows: Array, path: Array, depth: Array | int) -> Array:
    """Return ``rows[b, path[b], depth[b]]``, [B, V] from rows [B, K, M, V], in working precision."""
    return in_working_precision(rows[arange_like(path, path.shape[0]), path, depth])


def ranks(target: Array, draft: Array) -> Array:
    """Return each token's rank, int [B, V], 0 for the highest p/q; tokens with q = 0 rank by p/q = 0."""
    xp = namespace(target)
    every = arange_like(target, target.shape[0])
    is_short = target.shape[-1] <= _SHORT
    chosen, copy = (every, every) if is_short else distinct_requests(target, draft, zeros(every))
    ratio = divide(target[chosen], draft[chosen], otherwise=0)
    largest = 1e38  # float32 ends at 3.4e38
    key = xp.astype(xp.where(ratio < largest, ratio, largest), xp.float32)
    return _inverse(xp.argsort(-key, axis=-1, stable=True))[copy]


def _inverse(order: Array) -> Array:
    """Return the inverse of each row of ``order`` int [B, V], which is a permutation."""
    inverse, places = order * 0, arange_like(order, order.shape[-1])
    inverse[arange_like(order, order.shape[0])[:, None], order] = places[None, :] + inverse
    return inverse


def child_intervals(draft: Array, rank: Array, alpha: Array) -> tuple[Array, Array]:
    """Return a_x and b_x [B, V]: the share of [0, 1] below each child, and up to and including it.

    draft [B, V]; rank int [B, V]; alpha [B], the share of the interval that lies below the node itself.
    """
    xp = namespace(draft)
    back = rank.shape[-1] - 1 - rank
    order = _inverse(back)
    upto = xp.cumulative_sum(xp.take_along_axis(draft, order, axis=-1), axis=-1)
    below = xp.concat([zeros(upto[:, :1]), upto[:, :-1]], axis=-1)
    width = (1 - alpha)[:, None]
    low = alpha[:, None] + width * xp.take_along_axis(below, back, axis=-1)
    high = alpha[:, None] + width * xp.take_along_axis(upto, back, axis=-1)
    return low, high


def highest_path_row(draft: Array, rank: Array, alpha: Array, num_paths: int) -> Array:
    """Return q^Gamma(. | v) [B, V], the law of the next token of the highest of ``num_paths`` paths."""
    low, high = child_intervals(draft, rank, alpha)
    paths = filled(rank[:, :1], num_paths)
    whole = power_sum(alpha[:, None], ones(alpha[:, None]), paths)
    return draft * power_sum(low, high, paths) / whole


def child_alpha(draft: Array, rank: Array, alpha: Array, token: Array) -> Array:
    """Return the alpha [B] of child ``token`` int [B]."""
    xp = namespace(draft)
    lower = xp.sum(kept(rank > pick(rank, token)[:, None], draft), axis=-1)
    low, width = alpha + (1 - alpha) * lower, (1 - alpha) * pick(draft, token)
    return divide(low, low + width, otherwise=0)


def keep_highest(present: Array, rank: Array, tokens: Array) -> Array:
    """Return which paths continue with the highest child: present bool [B, K], tokens int [B, K]."""
    xp = namespace(rank)
    drafted = pick_each(rank, tokens)
    best = xp.min(xp.where(present, drafted, rank.shape[-1]), axis=-1, keepdims=True)
    return present & (drafted == best)
