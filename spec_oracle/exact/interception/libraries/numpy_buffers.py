"""Arrays that foreign code allocates during a run, with room for symbols.

An ordinary float array cannot hold a symbol, and numpy writes into it without asking anyone but the symbol.
So arrays of float64 and float32 that the foreign code makes while it is traced are made as `NoiseArray`;
those it made before are ordinary, and writing a traced number into one raises `CannotTraceError`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from spec_oracle.exact.errors import is_foreign
from spec_oracle.exact.interception.libraries import replaced
from spec_oracle.exact.interception.libraries.numpy_arrays import (
    HOLDING,
    NoiseArray,
    converted,
    has_symbols,
    passing_for,
)
from spec_oracle.exact.interception.libraries.numpy_memory import guard_from_numba
from spec_oracle.exact.interception.run import active_run
from spec_oracle.exact.interception.symbols import Symbol
from verifiers.arrays import Array

_ALLOCATE: Final = ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like")
_COMPILED: Final = [
    module
    for name, module in sys.modules.items()
    if name.startswith("numpy.random.") and getattr(module, "np", None) is np
]
_CONVERT: Final = ("array", "asarray", "asanyarray", "ascontiguousarray", "copy")


@cache
def _originals() -> SimpleNamespace:
    return SimpleNamespace(**vars(np))


@contextmanager
def traced_arrays() -> Iterator[None]:
    """Replace numpy's functions that make arrays, for calls from foreign code.

    The compiled modules of `numpy.random` keep the originals: they have no Python frame of their own, so a
    real generator would look foreign, and it writes its numbers straight into the memory of the array.
    """
    guard_from_numba()
    replacements = {name: _allocating(getattr(np, name)) for name in _ALLOCATE}
    replacements |= {name: _converting(getattr(np, name)) for name in _CONVERT}
    with ExitStack() as stack:
        for module in _COMPILED:
            stack.enter_context(replaced(module, np=_originals()))
        stack.enter_context(replaced(np, **replacements))
        yield


def _allocating(real: Callable[..., Array]) -> Callable[..., Array]:
    def allocate(*args: object, **kwargs: object) -> Array:
        array = real(*args, **kwargs)
        if active_run.get() is None or type(array) is not np.ndarray or array.dtype not in HOLDING:
            return array
        ours = is_foreign(sys._getframe(1).f_code.co_filename)  # noqa: SLF001  (the documented way)
        return passing_for(array.astype(object), array.dtype) if ours else array

    return allocate


def _converting(real: Callable[..., Array]) -> Callable[..., Array]:
    def convert(values: object, dtype: DTypeLike | None = None, *args: object, **kwargs: object) -> Array:
        if active_run.get() is None:
            return real(values, *(() if dtype is None else (dtype,)), *args, **kwargs)
        if isinstance(values, NoiseArray):
            if dtype is not None and np.dtype(dtype) != values.dtype:
                return converted(values, np.dtype(dtype))
            return values if "as" in real.__name__ else values.copy()
        of_objects = isinstance(values, np.ndarray) and values.dtype.hasobject
        if of_objects or isinstance(values, list | tuple | Symbol):
            objects = real(values)
            if objects.dtype == object and has_symbols(objects):
                return converted(objects, np.dtype(dtype or np.float64))
        return real(values, dtype, *args, **kwargs) if dtype is not None else real(values, *args, **kwargs)

    return convert
