"""Requests of a batch that ask for the same thing: planned once, and copied.

An enumeration, or a batch of drafts from one context, repeats a few rows many times.
"""

from verifiers.arrays import Array, arange_like, as_float64, namespace, zeros


def distinct_requests(target: Array, draft: Array, count: Array) -> tuple[Array, Array]:
    """Return the requests to plan, int [D], and for each request its place among them, int [B].

    target and draft [B, V], count int [B]. Requests are compared by one number and then, for safety, in full.
    """
    xp = namespace(target)
    every = arange_like(target, target.shape[0])
    if target.shape[0] == 1:
        return every, every
    spread = xp.astype(arange_like(target, target.shape[1]) + 1, xp.float64) * 0.6180339887498949
    sketch = xp.sum((as_float64(target) + as_float64(draft) * 2**0.5) * (spread - xp.floor(spread)), axis=-1)
    _, copy = xp.unique_inverse(sketch + count)
    chosen = zeros(every[: int(xp.max(copy)) + 1])
    chosen[copy] = every
    twin = chosen[copy]
    if xp.all((target == target[twin]) & (draft == draft[twin])) and xp.all(count == count[twin]):
        return chosen, copy
    return every, every
