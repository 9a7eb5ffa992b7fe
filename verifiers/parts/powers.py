"""Whole powers by products alone, the same to the last digit in any batch.

`**` of an array library takes short cuts (a square, a root) where all requests of a batch share an exponent,
which round otherwise than its general route: a request's result would depend on its batch.
"""

from verifiers.arrays import Array, namespace, ones


def power(base: Array, exponent: Array) -> Array:
    """Return ``base ** exponent`` for whole exponents of at least 0 that broadcast, by repeated squaring."""
    xp = namespace(base)
    result = ones(base)
    for bit in range(int(xp.max(exponent)).bit_length()):
        base = base * base if bit else base
        wanted = (exponent >> bit) % 2 == 1
        if xp.any(wanted):
            product = result * base
            result = product if xp.all(wanted) else xp.where(wanted, product, result)
    return result


def power_sum(low: Array, high: Array, count: Array) -> Array:
    """Return (high^n - low^n) / (high - low) = sum_{i<n} high^i low^(n-1-i), without cancellation.

    ``count`` int is n >= 0; shapes broadcast to that of ``low``.
    """
    xp = namespace(low)
    total, leading = low * 0, ones(high)
    for i in range(int(xp.max(count))):
        total = xp.where(count > i, total * low + leading, total)
        leading = leading * high
    return total
