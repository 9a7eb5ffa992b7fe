"""Array helpers that work alike on numpy floats, numpy object arrays of rationals, and torch tensors.

Two traps shape this module. Object arrays must never meet a Python int as a *divisor's* partner (``0 / 1`` is
a float, and one float makes every later rational a float), so constants are derived from the data they join.
And low-precision inputs (float16, bfloat16) are computed in float32.
"""

from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from math import isfinite
from numbers import Integral, Rational
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import array_api_compat
import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Array: TypeAlias = Any  # numpy.ndarray (float or object) or torch.Tensor
Namespace: TypeAlias = Any
Record = TypeVar("Record", bound="DataclassInstance")

_LOW_PRECISION = ("float16", "bfloat16")
_FOLDED = 512
"""Numbers so far apart are summed in their own type, so that no array of V numbers is in float64."""

_NAMESPACES: dict[type, Namespace] = {}  # looked up a hundred times a call, and slow to find


def namespace(array: Array) -> Namespace:
    """Return the array namespace that ``array`` belongs to."""
    kind = type(array)
    if kind not in _NAMESPACES:
        found = array_api_compat.array_namespace(array)
        # From 2.1 on numpy is such a namespace itself; wrappers would take a tenth of an audit's time.
        is_numpy = array_api_compat.is_numpy_namespace(found) and hasattr(np, "cumulative_sum")
        _NAMESPACES[kind] = np if is_numpy else found
    return _NAMESPACES[kind]


def in_working_precision(array: Array) -> Array:
    """Return ``array`` in float32 if its type is float16 or bfloat16, else unchanged."""
    if isinstance(array, np.ndarray) and array.dtype.itemsize > 2:  # numpy takes long to name a type
        return array
    if str(array.dtype).rpartition(".")[2] in _LOW_PRECISION:
        xp = namespace(array)
        return xp.astype(array, xp.float32)
    return array


def arange_like(array: Array, stop: int) -> Array:
    """Return 0..stop-1 as integers on the device of ``array``."""
    if isinstance(array, np.ndarray):  # asked for dozens of times a call, and slow to ask for a device
        return np.arange(stop)
    return namespace(array).arange(stop, device=array_api_compat.device(array))


def unfilled(shape: tuple[int, ...], like: Array) -> Array:
    """Return an array with anything in it, of the number type and on the device of ``like``."""
    return namespace(like).empty(shape, dtype=like.dtype, device=array_api_compat.device(like))


def filled(values: Array, number: float | Rational) -> Array:
    """Return an array like ``values`` that holds ``number`` everywhere, in its number type.

    Not ``values * 0 + number``: a NaN would survive that. Among rationals a float is the rational that it is.
    """
    if not isinstance(values, np.ndarray):
        return namespace(values).full_like(values, number)
    if not is_exact(values):
        constant = np.empty_like(values)
        constant.fill(number)
        return constant
    if not isinstance(number, Rational) and isfinite(number):
        number = Fraction(float(number))
    # One rational stands everywhere, since each takes long to make; the first says what a rational is.
    one = values.flat[0] * 0 + number if values.size else None
    if not isinstance(one, Integral) and isinstance(one, Rational):
        return np.full(values.shape, one, dtype=values.dtype)
    return values * 0 + number


def zeros(values: Array) -> Array:
    """Return zeros in the shape and number type of ``values``."""
    return filled(values, 0)


def ones(values: Array) -> Array:
    """Return ones in the shape and number type of ``values``."""
    return filled(values, 1)


def all_true(values: Array) -> Array:
    """Return bool, True everywhere, in the shape of ``values``."""
    xp = namespace(values)
    return xp.ones_like(values, dtype=xp.bool)


def kept(mask: Array, values: Array) -> Array:
    """Return ``values`` where ``mask`` holds, else 0; shapes broadcast."""
    return _where(mask, values, 0)


def _where(mask: Array, values: Array, number: int) -> Array:
    """Return ``values`` where ``mask`` holds, else ``number``; rationals take an array of it."""
    return namespace(values).where(mask, values, filled(values, number) if is_exact(values) else number)


def _fits(out: Array, dtype: Any) -> bool:
    """Whether results of a type can be written to ``out``; compilers find places themselves."""
    if out is None or out.dtype != dtype:
        return False
    return not (array_api_compat.is_torch_array(out) and namespace(out).compiler.is_compiling())


def pick(rows: Array, index: Array, out: Array = None) -> Array:
    """Return ``rows[b, index[b]]`` for every request b: [B, N, ...] and int [B] give [...]-rows [B, ...].

    In ``out`` if it is given, of their type, and torch can put them there.
    """
    batch = arange_like(index, index.shape[0])
    if array_api_compat.is_torch_array(rows) and rows.is_contiguous() and _fits(out, rows.dtype):
        flat = rows.detach().flatten(0, 1)
        return namespace(rows).index_select(flat, 0, batch * rows.shape[1] + index, out=out)
    return rows[batch, index]


def rows_at(rows: Array, path: Array | int, depth: Array, out: Array = None) -> Array:
    """Return ``rows[b, path[b], depth[b]]``, [B, V] from rows [B, K, M, V]; ``out`` as of `pick`.

    ``path`` may be one number for all requests.
    """
    if out is not None and array_api_compat.is_torch_array(rows) and rows.is_contiguous():
        return pick(rows.flatten(1, 2), path * rows.shape[2] + depth, out=out)
    return rows[arange_like(depth, depth.shape[0]), path, depth]


def pick_each(row: Array, index: Array) -> Array:
    """Return ``row[b, index[b, k]]``, [B, K] from a row [B, V] and int [B, K]."""
    return row[arange_like(index, index.shape[0])[:, None], index]


def place_in(row: Array, values: Array, *, right: bool = False) -> Array:
    """Return how many entries of a sorted ``row`` [B, N] are below ``values`` [B, M], int [B, M].

    ``right``: or equal to it. torch has an operator for all rows.
    """
    xp, side = namespace(row), "right" if right else "left"
    if array_api_compat.is_torch_array(row):
        return xp.searchsorted(row.contiguous(), values.contiguous(), side=side)
    pairs = zip(row, values, strict=True)
    return xp.stack([xp.searchsorted(some, each, side=side) for some, each in pairs])


def positive_part(values: Array, out: Array = None) -> Array:
    """Return max(values, 0), elementwise, in ``out`` if it is given; NaN stays NaN."""
    return namespace(values).maximum(values, zeros(values[..., :1]), out=out)


def minus_multiple(values: Array, factor: Array, other: Array, out: Array = None) -> Array:
    """Return ``values - factor * other``; in torch by one operator, with no gradient.

    In ``out`` if it is given and of the type of the result.
    """
    xp = namespace(values)
    fits = _fits(out, xp.result_type(values, factor, other))
    if array_api_compat.is_torch_array(values):
        values, factor, other = values.detach(), factor.detach(), other.detach()
        return xp.addcmul(values, factor, other, value=-1, out=out.detach() if fits else None)
    return xp.subtract(values, factor * other, out=out if fits else None)


def overwritten(values: Array, mask: Array, other: Array) -> Array:
    """Return ``values``, which torch overwrites, with ``other`` where ``mask`` holds; shapes broadcast."""
    if array_api_compat.is_torch_array(values):
        import torch

        return torch.where(mask, other.detach(), values, out=values)
    return namespace(values).where(mask, other, values)


def minimum_one(values: Array) -> Array:
    """Return min(values, 1), elementwise; NaN stays NaN, and is no chance of 1."""
    return _where(~(values > 1), values, 1)


def divide(numerator: Array, denominator: Array, *, otherwise: int) -> Array:
    """Return ``numerator / denominator``, and ``otherwise`` where the denominator is not positive, or NaN."""
    usable = denominator > 0
    return _where(usable, numerator / _where(usable, denominator, 1), otherwise)


def normalised(weights: Array) -> Array:
    """Return ``weights`` divided by their sum over the last axis; rows of zeros stay zero."""
    xp = namespace(weights)
    total = xp.sum(weights, axis=-1, keepdims=True)
    return divide(weights, total, otherwise=0)


def map_fields(function: Callable[[Array], Array], record: Record) -> Record:
    """Return a dataclass like ``record`` with ``function`` applied to every array in it."""

    def mapped(value: Any) -> Any:
        return map_fields(function, value) if hasattr(value, "__dataclass_fields__") else function(value)

    return type(record)(*(mapped(getattr(record, field.name)) for field in fields(record)))


def is_nan(values: Array) -> Array:
    """Return bool, elementwise: whether a value is NaN; for rationals too, which never are."""
    return values != values  # noqa: PLR0124


def is_exact(values: Array) -> bool:
    """Whether ``values`` are exact rationals, that is, an object array."""
    return bool(values.dtype == object)


def as_float64(values: Array) -> Array:
    """Return ``values``, rationals or floats of any width, as float64."""
    xp = namespace(values)
    return xp.astype(values, xp.float64)


def working_rows(rows: Array) -> Array:
    """Return ``rows`` [..., V] normalised, in working precision."""
    return normalised(in_working_precision(rows))


def as_arithmetic_of(like: Array, values: Array) -> Array:
    """Return float64 ``values`` in the number type of ``like``; exactly, where that type is rational."""
    xp = namespace(like)
    if not is_exact(like):
        return xp.astype(values, like.dtype)
    rational = type(like.reshape(-1)[0])
    exact = xp.empty(values.shape, dtype=object)
    exact.reshape(-1)[:] = [rational(float(value)) for value in values.reshape(-1)]
    return exact


def raised_to(exponent: Array) -> Callable[[Array], Array]:
    """Return the function that raises to whole exponents of at least 0 that broadcast, by repeated squaring.

    By products alone, so that it is the same to the last digit in any batch: `**` of an array library takes
    short cuts where all requests share an exponent, which round otherwise than its general route.
    """
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


def distinct_requests(target: Array, draft: Array, count: Array) -> tuple[Array, Array]:
    """Return the distinct requests, int [D], and for each request its place among them, int [B].

    An enumeration, or a batch of drafts from one context, repeats a few rows many times: they are planned
    once. target and draft [B, V], count int [B]. Requests are compared by one number and then, for safety,
    in full.
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
