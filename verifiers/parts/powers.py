"""Whole powers by products alone, the same to the last digit in any batch.

`**` of an array library takes short cuts (a square, a root) where all requests of a batch share an exponent,
which round otherwise than its general route: a request's result would depend on its batch.
"""

from collections.abc import Callable

from verifiers.arrays import Array, namespace, ones


def power(base: Array, exponent: Array) -> Array:
    """Return ``base ** exponent`` for whole exponents of at least 0 that broadcast, by repeated squaring."""
    return raised_to(exponent)(base)


def raised_to(exponent: Array) -> Callable[[Array], Array]:
    """Return the function that raises to these exponents, as `power`: for many bases of one shape."""
    xp = namespace(exponent)
    bits = [(exponent >> bit) % 2 == 1 for bit in range(int(xp.max(exponent)).bit_length())]
    wanted = [(bit, bool(xp.any(bit)), bool(xp.all(bit))) for bit in bits]

    def raised(base: Array) -> Array:
        result = None
        for place, (bit, is_any, is_all) in enumerate(wanted):
            base = base * base if place else base
            if is_any:
                before = ones(base) if result is None else result
                product = base if result is None else result * base
                result = product if is_all else xp.where(bit, product, before)
        return ones(base) if result is None else result

    return raised


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
