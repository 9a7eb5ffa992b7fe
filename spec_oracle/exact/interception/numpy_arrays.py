"""numpy arrays of symbols: object arrays whose elements are numbers and symbols.

numpy moves objects about faithfully (indexing, reshaping, stacking, assignment into object arrays), and an
element that would have to become a float raises by itself. Left to do: computing elementwise through
`arithmetic.FUNCTIONS`, and recognising races.
"""

from typing import Any

import numpy as np

from spec_oracle.exact.interception.arithmetic import COMPARISONS, FUNCTIONS
from spec_oracle.exact.interception.races import race
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Symbol

_ELEMENTWISE = {
    getattr(np, name): np.frompyfunc(function, getattr(np, name).nin, 1)
    for name, function in FUNCTIONS.items()
    if isinstance(getattr(np, name), np.ufunc)
}


_ArrayBase: Any = np.ndarray  # its generic signatures do not allow for what happens here


class NoiseArray(_ArrayBase):  # type: ignore[misc]
    """An object array that computes on symbols. dtype requests are ignored: symbols have no precision."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _HANDLED:
            handler: Any = _HANDLED[func]
            return handler(*args, **kwargs)
        return as_noise(super().__array_function__(func, types, args, kwargs))

    def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Run the race for the largest element of each row."""
        return _races(self, axis, out, largest=True, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Run the race for the smallest element of each row."""
        return _races(self, axis, out, largest=False, keepdims=keepdims)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Truncate to integers; other types leave symbols as they are."""
        if np.issubdtype(dtype, np.integer) or np.issubdtype(dtype, np.bool_):
            return np.asarray(self).astype(dtype, *args, **kwargs)
        return self.copy()

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **_: Any) -> Any:  # noqa: A002
        """Clip each element."""
        return _clip(self, min, max, out)


def as_noise(value: Any) -> Any:
    """Return object arrays as `NoiseArray`, ordinary arrays when no symbol is left; the rest as is."""
    if isinstance(value, tuple | list):
        return type(value)(as_noise(part) for part in value)
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    plain = np.asarray(value)
    if any(isinstance(element, Symbol) for element in plain.flat):
        return plain.view(NoiseArray)
    return np.array(plain.tolist()).reshape(plain.shape)


def symbols(shape: Any, make: Any) -> Any:
    """Return ``make()`` for no shape, else an array of fresh calls of ``make``."""
    if shape is None:
        return make()
    array = np.empty(shape, dtype=object)
    for index in np.ndindex(array.shape):
        array[index] = make()
    return array.view(NoiseArray)


def apply_ufunc(ufunc: Any, method: str, inputs: Any, options: Any) -> Any:
    """Compute a numpy ufunc on arrays with symbols; raises `CannotFollowError` where that is not possible."""
    elementwise = _ELEMENTWISE.get(ufunc)
    if elementwise is None or method not in ("__call__", "reduce", "accumulate", "outer"):
        current_run().cannot_follow(f"numpy.{ufunc.__name__} ({method})", "not known for random numbers")
    outputs = options.pop("out", ())
    if any(np.asarray(output).dtype != object for output in outputs):
        current_run().cannot_follow(
            f"numpy.{ufunc.__name__}", "random numbers would be written into an ordinary array"
        )
    options = {key: value for key, value in options.items() if key not in ("dtype", "casting", "subok")}
    with np.errstate(all="ignore"):
        result = getattr(elementwise, method)(*(_objects(value) for value in inputs), **options)
    if ufunc.__name__ in COMPARISONS and isinstance(result, np.ndarray):
        return result.astype(bool)
    if outputs:
        outputs[0][...] = result
        return outputs[0]
    return as_noise(result)


def _objects(value: Any) -> Any:
    if isinstance(value, Symbol):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.asarray(value).astype(object)


def _races(scores: Any, axis: int | None, out: Any, *, largest: bool, keepdims: bool) -> Any:
    if out is not None:
        current_run().cannot_follow("race", "winners would be written into an ordinary array")
    array = np.asarray(scores)
    rows = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, -1)
    winners = np.empty(rows.shape[:-1], dtype=np.int64)
    for index in np.ndindex(winners.shape):
        winners[index] = race(list(rows[index]), largest=largest).settled()
    if axis is None:
        winners = winners.reshape((1,) * array.ndim if keepdims else ())
    elif keepdims:
        winners = np.expand_dims(winners, axis)
    return winners[()]


def _clip(array: Any, low: Any = None, high: Any = None, out: Any = None, **_: Any) -> Any:
    options = {} if out is None else {"out": (out,)}
    result = array if low is None else apply_ufunc(np.maximum, "__call__", (array, low), options)
    return result if high is None else apply_ufunc(np.minimum, "__call__", (result, high), options)


def _argmax(array: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return _races(array, axis, out, largest=True, keepdims=keepdims)


def _argmin(array: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return _races(array, axis, out, largest=False, keepdims=keepdims)


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Search numbers for each noise on its own: numpy would compare the noises with each other."""
    values = np.asarray(v)
    found = np.empty(values.shape, dtype=np.int64)
    for index in np.ndindex(values.shape):
        found[index] = np.searchsorted(np.asarray(a), values[index], side, sorter)  # type: ignore[call-overload]
    return found[()]


_HANDLED = {np.argmax: _argmax, np.argmin: _argmin, np.clip: _clip, np.searchsorted: _searchsorted}
