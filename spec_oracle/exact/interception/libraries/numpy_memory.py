"""The memory of arrays of symbols, which compiled code must not see: it would take objects for numbers.

ctypes, cffi, memory views and compilers such as numba take the address of an array and ask no element for its
value. In a run each of these ways raises `CannotTraceError`. An array that holds no symbol gets memory of
numbers then, and so does one that foreign code has kept beyond its run: its next call may hand it over.
"""

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from spec_oracle.exact.interception.run import active_run, current_run
from spec_oracle.exact.interception.symbols import any_symbol
from verifiers.arrays import Array

_REFUSED: Final = -1


class _Slot(ctypes.Structure):
    """`PyType_Slot` of CPython."""

    _fields_ = (("number", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    """`PyType_Spec` of CPython."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basic_size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_GET_BUFFER, _DEFAULT_FLAGS, _MAY_BE_SUBCLASSED = 1, 1 << 18, 1 << 10
_GetBuffer: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_get_buffer: Any = _GetBuffer(("PyObject_GetBuffer", ctypes.pythonapi))


def _guarded_buffer(array: "GuardedArray", view: int | None, flags: int) -> int:
    """Fill in a view of the memory of an array; where that is refused, the run has failed."""
    try:
        return int(_get_buffer(array.memory("the buffer of an array"), view, flags))
    except BaseException:  # noqa: BLE001  (nothing passes through the C code that asks)
        return _REFUSED


_callback: Final = _GetBuffer(_guarded_buffer)
_slots: Final = (_Slot * 2)(_Slot(_GET_BUFFER, ctypes.cast(_callback, ctypes.c_void_p)), _Slot(0, None))
_spec: Final = _Spec(f"{__name__}.GuardedBuffer".encode(), 0, 0, _DEFAULT_FLAGS | _MAY_BE_SUBCLASSED, _slots)
_type_from: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec), ctypes.py_object)(
    ("PyType_FromSpecWithBases", ctypes.pythonapi)
)
_GuardedBuffer: Any = _type_from(ctypes.byref(_spec), (np.ndarray,))
"""numpy's array with another answer to the buffer protocol: Python has no name for it before version 3.12."""


class GuardedArray(_GuardedBuffer):  # type: ignore[misc]
    """An array of objects that passes for one of numbers, of type ``_passes_for``."""

    def memory(self, way: str) -> Array:
        """Return an ordinary array that shares its memory; raises `CannotTraceError` in a run."""
        root, is_traced = self, active_run.get() is not None
        while isinstance(root.base, GuardedArray):
            root = root.base
        if _stored(root).hasobject and not (is_traced and any_symbol(_plain(root).ravel().tolist())):
            _fill_with_numbers(root)
            if is_traced:  # what refers to the objects does not see what is written to the numbers
                _refuse(way)
        if not _stored(self).hasobject:
            return _plain(self)
        if is_traced:
            _refuse(way)
        return _plain(self).astype(self._passes_for)

    def view(self, *form: object, **named: object) -> Array:
        """Return the same elements again; what their bits are in another type is refused in a run."""
        types = [
            kind
            for kind in (*form, *named.values())
            if not (isinstance(kind, type) and issubclass(kind, np.ndarray))
        ]
        if all(kind == self.dtype for kind in types):
            return np.ndarray.view(self, type(self))
        return self.memory(".view()").view(*form, **named)


def _stored(array: Array) -> np.dtype[np.generic]:
    stored: np.dtype[np.generic] = np.ndarray.dtype.__get__(array)
    return stored


def _plain(array: Array) -> Array:
    return np.ndarray.view(array, np.ndarray)


def _refuse(way: str) -> None:
    current_run().cannot_trace(way, "other code would read or write the memory of random numbers")


def _fill_with_numbers(array: Array) -> None:
    """Give an array of objects memory of numbers; symbols that are left of an earlier run are drawn."""
    numbers = _plain(array).astype(array._passes_for)  # noqa: SLF001  (of our own class)
    array.objects = array.base  # views of the array still refer to these
    state: Any = (1, numbers.shape, numbers.dtype, False, numbers.tobytes())
    np.ndarray.__setstate__(array, state)


def _guarded_method(name: str) -> Callable[..., object]:
    def method(self: GuardedArray, *arguments: object, **options: object) -> object:
        return getattr(self.memory(f".{name}()"), name)(*arguments, **options)

    return method


def _guarded_property(name: str) -> property:
    return property(lambda self: getattr(self.memory(f".{name}"), name))


for _name in ("byteswap", "getfield", "setfield", "tofile", "__dlpack__", "__dlpack_device__"):
    setattr(GuardedArray, _name, _guarded_method(_name))
for _name in ("ctypes", "data", "__array_interface__", "__array_struct__"):
    setattr(GuardedArray, _name, _guarded_property(_name))


def guard_from_numba() -> None:
    """Make numba ask for the memory of an array before it reads it; does nothing where nobody imported it."""
    if "numba" in sys.modules:
        _register_with_numba()


@functools.cache
def _register_with_numba() -> None:
    type_of: Any = importlib.import_module("numba.extending").typeof_impl

    def typed(array: GuardedArray, context: object) -> object:
        memory = array.memory("a call of a function compiled by numba")
        if _stored(array).hasobject:
            raise TypeError("numba: the array was made while random numbers were traced")
        return type_of(memory, context)

    type_of.register(GuardedArray)(typed)
