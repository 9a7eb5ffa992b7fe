"""numpy arrays of symbols: object arrays that pass for arrays of a number type.

numpy moves objects about faithfully (indexing, reshaping, stacking, assignment into object arrays), and an
element that would have to become a number in an ordinary array is asked for it, and raises. So nothing ever
computes on a symbol by mistake. Left to do: computing elementwise through `algebra.FUNCTIONS`, recognising
races, and looking like an array of numbers. An array without symbols computes as ordinary arrays do.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from spec_oracle.arrays import Objects, Size
from spec_oracle.exact.interception.algebra import FUNCTIONS, truncate
from spec_oracle.exact.interception.comparisons import (
    COMPARISONS,
    compared_with_many,
    computed,
    place_of,
    remembering,
)
from spec_oracle.exact.interception.draws import Noise
from spec_oracle.exact.interception.libraries import Arguments, Keywords
from spec_oracle.exact.interception.libraries.numpy_memory import GuardedArray
from spec_oracle.exact.interception.races import places
from spec_oracle.exact.interception.run import active_run, current_run
from spec_oracle.exact.interception.sources import alike
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol, any_symbol
from verifiers.arrays import Array

DType: TypeAlias = np.dtype[Any]

_ELEMENTWISE: Final[dict[np.ufunc, np.ufunc]] = {
    getattr(np, name): np.frompyfunc(function, getattr(np, name).nin, 1)
    for name, function in FUNCTIONS.items()
    if isinstance(getattr(np, name), np.ufunc)
}

_FEW: Final = 64
"""Elements from which on equal operations on equal noises are computed once."""

HOLDING: Final = (np.dtype(np.float64), np.dtype(np.float32))
"""Types of arrays that may hold noise."""

_HALF: Final = np.dtype(np.float16)

plain_objects: Final[Callable[..., Array]] = partial(np.array, dtype=object, subok=False)
"""Copy into an ordinary object array; bound here because the name in numpy is replaced in a run."""


class NoiseArray(GuardedArray):
    """An array of numbers and symbols, stored as objects; ``dtype`` is the number type it passes for."""

    def __array_finalize__(self, origin: object) -> None:
        self._passes_for = getattr(origin, "_passes_for", np.dtype(np.float64))

    @property
    def dtype(self) -> DType:
        """The number type; of objects once the run is over: compiled code would write numbers over them."""
        stored = np.ndarray.dtype.__get__(self)
        return self._passes_for if stored.hasobject and active_run.get() is not None else stored

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> object:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(
        self, func: Callable[..., object], types: Sequence[type], args: Arguments, kwargs: Keywords
    ) -> object:
        if func in _HANDLED:
            return _HANDLED[func](*args, **kwargs)
        if func.__module__ == "numpy.linalg" and not any(map(has_symbols, args)):
            return func(*map(as_numbers, args), **kwargs)  # it would look at what is stored
        if func in _JOINING and not (kwargs or any(map(has_symbols, args[0]))):
            return func([as_numbers(part) for part in args[0]], *args[1:])  # quicker than as objects
        try:
            arrays = [kind for kind in types if not issubclass(kind, Symbol)]
            result = super().__array_function__(func, arrays, args, kwargs)
        except TypeError as error:
            if not any(map(has_symbols, args)):
                raise
            current_run().cannot_trace(f"numpy.{func.__name__}", str(error))
        return as_noise(result, np.result_type(self.dtype, *_number_types((*args, *kwargs.values()))))

    def __getitem__(self, index: object) -> Array:
        found = super().__getitem__(index)
        return found if isinstance(found, np.ndarray | Symbol) else self.dtype.type(found)

    def __repr__(self) -> str:
        return f"array({self.tolist()})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else repr(self)

    def tobytes(self, order: Literal["C", "F", "A"] = "C") -> bytes:
        """Return the bytes of numbers; symbols have none."""
        if has_symbols(self):
            current_run().cannot_trace("tobytes", "it needs the value of a random number")
        return bytes(as_numbers(self).tobytes(order))

    def argmax(self, axis: int | None = None, out: Array = None, *, keepdims: bool = False) -> Array:
        """Run the race for the largest element of each row."""
        return _races(self, axis, out, largest=True, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: Array = None, *, keepdims: bool = False) -> Array:
        """Run the race for the smallest element of each row."""
        return _races(self, axis, out, largest=False, keepdims=keepdims)

    def argsort(self, axis: int | None = -1, **options: Array) -> Array:
        """Rank the elements of each row, the smallest first."""
        if not has_symbols(self):
            return as_numbers(self).argsort(axis, **options)
        rows = _rows(self, axis)
        order = places(rows, largest=False, count=rows.shape[-1]).astype(np.int64)
        return order.ravel() if axis is None else np.moveaxis(order, -1, axis)

    def astype(self, dtype: DTypeLike, *_: object, **__: object) -> Array:
        """Truncate to integers; symbols of float32 and float64 are the same."""
        return converted(self, np.dtype(dtype))

    def clip(self, min: Array = None, max: Array = None, out: Array = None) -> Array:  # noqa: A002
        """Clip each element."""
        result = self
        for ufunc, limit in ((np.maximum, min), (np.minimum, max)):
            if limit is not None:
                result = ufunc(result, limit, out=out)
        return result

    def round(self, decimals: int = 0, out: Array = None) -> Array:
        """Round to so many decimals."""
        if has_symbols(self):
            current_run().cannot_trace("numpy.round", "this function of a random number is not traced")
        return as_numbers(self).round(decimals, out)


def has_symbols(value: object) -> bool:
    """Whether a symbol is in ``value``, an array or a scalar."""
    if isinstance(value, NoiseArray) or (isinstance(value, np.ndarray) and value.dtype == object):
        return any_symbol(value.ravel().tolist())
    return isinstance(value, Symbol)


def as_noise(value: Any, dtype: DTypeLike = np.float64) -> Any:
    """Return object arrays as `NoiseArray`, or ordinary arrays when no symbol is in them; the rest as is."""
    if isinstance(value, tuple | list):
        return type(value)(as_noise(part, dtype) for part in value)
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    elements = value.ravel().tolist()
    kinds = set(map(type, elements))
    if any(issubclass(kind, Symbol) for kind in kinds):
        return passing_for(value, dtype)
    if kinds == {float}:
        return value.astype(dtype)
    numbers = np.array(elements).reshape(value.shape)
    return numbers.astype(dtype) if numbers.dtype.kind == "f" else numbers


def passing_for(objects: Objects, dtype: DTypeLike) -> Array:
    """Return an object array as a `NoiseArray` of a number type."""
    array: Array = objects.view(NoiseArray)
    array._passes_for = np.dtype(dtype)  # noqa: SLF001  (of our own class)
    return array


def converted(array: Array, dtype: DType) -> Array:
    """Return a copy with the number type; raises `CannotTraceError` where it has no room for symbols."""
    objects = plain_objects(array)
    if not has_symbols(objects) or dtype.hasobject:
        return objects.astype(dtype)
    if dtype.kind in "iu":
        objects = np.asarray(np.frompyfunc(_whole, 1, 1)(objects), dtype=object)
        return passing_for(objects, dtype) if has_symbols(objects) else objects.astype(dtype)
    if dtype.kind == "b":
        return objects.astype(bool)
    if dtype not in HOLDING:
        current_run().cannot_trace(f"conversion to {dtype}", "such an array cannot hold a random number")
    return passing_for(objects, dtype)


def _whole(value: Scalar) -> Scalar:
    """Return the integer part; of an integer that is not decided yet, itself."""
    return value if type(value) is Pending else truncate(value)


def drawn(
    shape: Size,
    make: Callable[[], Scalar],
    dtype: DTypeLike = np.float64,
    out: Array = None,
    *,
    is_formula: bool = False,
) -> Array:
    """Return ``make()`` for no shape, else an array of fresh calls of it, written into ``out`` if given.

    With ``is_formula``, ``make`` computes all by one formula of a uniform.
    """
    if shape is None and out is None:
        return make()
    places = out.shape if shape is None else shape
    count = np.empty(places, dtype=bool).size
    numbers = alike(make, count) if is_formula else [make() for _ in range(count)]
    array = _filled(places, numbers)
    if out is None:
        return passing_for(array, dtype) if has_symbols(array) else array.astype(dtype)
    if has_symbols(array) and not isinstance(out, NoiseArray):
        current_run().cannot_trace("out=", "the array was made before, it has no room for a random number")
    out[...] = array
    return out


def _filled(shape: SupportsIndex | Sequence[SupportsIndex], elements: Sequence[Scalar]) -> Objects:
    """Return an object array of these elements."""
    # From a list, numpy would ask each whether it is an array.
    return np.fromiter(elements, dtype=object, count=len(elements)).reshape(shape)


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: Arguments, options: Keywords) -> object:
    """Compute a numpy ufunc on arrays with symbols; raises `CannotTraceError` where that is not possible."""
    name = f"numpy.{ufunc.__name__}"
    outputs = options.pop("out", ())
    if not any(map(has_symbols, inputs)):
        return _on_numbers(ufunc, method, inputs, outputs, options)
    if ufunc not in _ELEMENTWISE or method not in ("__call__", "reduce", "accumulate", "outer"):
        current_run().cannot_trace(f"{name} ({method})", "not supported for random numbers")
    if not all(isinstance(output, NoiseArray) for output in outputs):
        current_run().cannot_trace(name, "random numbers would be written into an ordinary array")
    answer = _answer_type(ufunc, inputs)
    if answer == _HALF:
        current_run().cannot_trace(name, "random numbers in float16 are rounded")
    kept = {key: value for key, value in options.items() if key not in ("dtype", "casting", "subok")}
    if ufunc.__name__ in COMPARISONS and len(inputs) == 2 and not (kept or outputs):
        # Numbers stay what they are: there may be as many as tokens.
        operands = [
            value if type(value) is np.ndarray and value.dtype.kind in "fiu" else _objects(value)
            for value in inputs
        ]
        many = compared_with_many(ufunc.__name__, *operands)
        if many is not None:
            return many
    objects = [*map(_objects, inputs)]
    shape = np.broadcast_shapes(*(array.shape for array in objects)) if method == "__call__" else ()
    if not (kept or outputs) and math.prod(shape) > _FEW:
        flat: list[list[Scalar]] = [np.broadcast_to(array, shape).ravel().tolist() for array in objects]
        result = _filled(shape, computed(ufunc.__name__, flat))
    else:
        if outputs:
            kept["out"] = tuple(np.ndarray.view(output, np.ndarray) for output in outputs)
        compute = _ELEMENTWISE[ufunc]
        if math.prod(shape) > _FEW:
            compute = np.frompyfunc(remembering(ufunc.__name__), ufunc.nin, 1)
        with np.errstate(all="ignore"):
            result = getattr(compute, method)(*objects, **kept)
    if outputs:
        return outputs[0]
    if ufunc.__name__ in COMPARISONS and isinstance(result, np.ndarray):
        return result.astype(bool)
    return as_noise(result, answer)


def _answer_type(ufunc: np.ufunc, inputs: Arguments) -> DType:
    """Return the number type of the (first) output of numpy."""
    types = [_number_type(value) for value in inputs]
    if ufunc.nin == 2 and len(types) == 1:  # a reduction
        types *= 2
    return ufunc.resolve_dtypes((*types, *[None] * ufunc.nout))[ufunc.nin]


def _number_type(value: Array) -> DType | type:
    """Return the number type; Python's numbers, which adapt to those of arrays, have none of their own."""
    if isinstance(value, np.ndarray):
        return np.dtype(np.float64) if value.dtype == object else value.dtype
    if hasattr(value, "dtype") and not isinstance(value, Symbol):
        return np.asarray(value).dtype
    return int if isinstance(value, int) else float


def _number_types(values: Iterable[object]) -> Iterator[DType]:
    """Yield the number types of all arrays in (lists of) arguments."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from _number_types(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield value.dtype


def _objects(value: Array) -> Array:
    if isinstance(value, Symbol):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return plain_objects(value)


def _on_numbers(
    ufunc: np.ufunc, method: str, inputs: Arguments, outputs: Arguments, options: Keywords
) -> object:
    """Compute on the numbers of arrays that hold no symbols now, and write what they ask to be written."""
    numbers = [as_numbers(value) for value in inputs]
    if method == "at":
        ufunc.at(*numbers, **options)
        inputs[0][...] = numbers[0]
        return None
    if any(map(has_symbols, outputs)) and options.get("where", True) is not True:
        current_run().cannot_trace(f"numpy.{ufunc.__name__}", "where= is not supported for random numbers")
    if outputs:
        written = tuple(np.zeros(o.shape, o.dtype) if has_symbols(o) else as_numbers(o) for o in outputs)
        getattr(ufunc, method)(*numbers, out=written, **options)
        for output, array in zip(outputs, written, strict=True):
            if output is not array:
                output[...] = array
        return outputs[0] if len(outputs) == 1 else outputs
    return getattr(ufunc, method)(*numbers, **options)


def as_numbers(value: Any) -> Any:
    """Return an array that holds no symbols as an ordinary one, and anything else as it is."""
    return value.astype(value.dtype) if isinstance(value, NoiseArray) else value


def _rows(array: Array, axis: int | None) -> Objects:
    objects = plain_objects(array)
    return objects.reshape(1, -1) if axis is None else np.moveaxis(objects, axis, -1)


def _races(scores: Array, axis: int | None, out: Array, *, largest: bool, keepdims: bool) -> Array:
    if not has_symbols(scores):
        return (np.argmax if largest else np.argmin)(as_numbers(scores), axis, out, keepdims=keepdims)
    if out is not None:
        current_run().cannot_trace("race", "winners would be written into an ordinary array")
    rows = _rows(scores, axis)
    pending = places(rows, largest=largest, none_wins=True)[..., 0]
    # Where rows share noise, only one winner can be decided: that waits until it is used.
    winners = passing_for(pending, np.int64) if _share_noise(rows) else pending.astype(np.int64)
    if axis is None:
        winners = winners.reshape((1,) * scores.ndim if keepdims else ())
    elif keepdims:
        winners = np.expand_dims(winners, axis)
    return winners[()]


def _share_noise(rows: Objects) -> bool:
    """Whether a noise stands in two rows of an object array [..., n]."""
    each = rows.reshape(-1, rows.shape[-1])
    if len(each) == 1:
        return False
    draws = [{score.draw for score in row if type(score) is Noise} for row in each]
    return len(set().union(*draws)) < sum(map(len, draws))


def _searchsorted(a: Array, v: Array, side: str = "left", sorter: Array = None) -> Array:
    """Search numbers for each noise on its own: numpy would compare the noises with each other."""
    values = plain_objects(v)
    found = np.empty(values.shape, dtype=np.int64)
    for index in np.ndindex(values.shape):
        value = values[index]
        if isinstance(value, Noise) and sorter is None and not has_symbols(a):
            found[index] = place_of(value, a, side)
        else:
            found[index] = plain_objects(a).searchsorted(value, side, sorter)
    return found[()]


def _clip(a: Array, a_min: Array = None, a_max: Array = None, out: Array = None, **names: Array) -> Array:
    return NoiseArray.clip(a, names.get("min", a_min), names.get("max", a_max), out)


_JOINING: Final = (np.concatenate, np.stack, np.hstack, np.vstack)
"""Functions whose first argument are arrays, which they leave alone."""

_HANDLED: Final[dict[Callable[..., object], Callable[..., object]]] = {
    np.clip: _clip,
    np.searchsorted: _searchsorted,
    np.result_type: lambda *values: np.result_type(*(_number_type(value) for value in values)),
}


def _function_of_symbol(
    _: Symbol, func: Any, types: Sequence[type], args: Arguments, kwargs: Keywords
) -> object:
    """Search ordinary numbers for one noise at once; numpy would compare them one by one."""
    if any(issubclass(kind, NoiseArray) for kind in types):
        return NotImplemented
    compute = _searchsorted if func is np.searchsorted else func._implementation  # noqa: SLF001
    return compute(*args, **kwargs)


# As scalars of numpy have it.
Symbol.astype = lambda symbol, dtype, *_, **__: converted(symbol, np.dtype(dtype))[()]  # type: ignore[attr-defined]
Symbol.__array_ufunc__ = NoiseArray.__array_ufunc__  # type: ignore[attr-defined]
Symbol.__array_function__ = _function_of_symbol  # type: ignore[attr-defined]
