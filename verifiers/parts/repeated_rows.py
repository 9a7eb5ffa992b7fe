"""Equal requests of a batch: planned once, and copied.

An enumeration, or a batch of drafts from one context, repeats a few rows many times.
"""

from verifiers.arrays import Array, arange_like, as_float64, namespace, zeros

_FOLDED = 512
"""Numbers so far apart are summed in their own type, so that no array of V numbers is in float64."""


def distinct_requests(target: Array, draft: Array, count: Array) -> tuple[Array, Array]:
    """Return the requests to plan, int [D], and for each request its place among them, int [B].

    target and draft [B, V], count int [B]. Requests are compared by one number and then, for safety, in full.
    """
    xp = namespace(target)
    every = arange_like(target, target.shape[0])
    if target.shape[0] == 1:
        return every, every
    _, copy = xp.unique_inverse(_sketch(target) + _sketch(draft) * 2**0.5 + count)
    chosen = zeros(every[: int(xp.max(copy)) + 1])
    chosen[copy] = every
    (repeated,) = xp.nonzero(chosen[copy] != every)
    twin = chosen[copy][repeated]
    is_same = (target[repeated] == target[twin]) & (draft[repeated] == draft[twin])
    if xp.all(is_same) and xp.all(count[repeated] == count[twin]):
        return chosen, copy
    return every, every


def _sketch(rows: Array) -> Array:
    """Return a number for each of ``rows`` [B, V] that hardly any other row has, float64 [B]."""
    xp = namespace(rows)
    width = min(rows.shape[1], _FOLDED)
    whole = rows[:, : rows.shape[1] // width * width]
    folded = as_float64(xp.sum(xp.reshape(whole, (rows.shape[0], -1, width)), axis=1))
    spread = xp.astype(arange_like(rows, width) + 1, xp.float64) * 0.6180339887498949
    return xp.sum(folded * (spread - xp.floor(spread)), axis=-1)
