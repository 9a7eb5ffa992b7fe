"""``float(u)``, ``np.float32(u)`` and ``math.log(u)`` for a random number u without a value.

These have to return a number, so they ask a symbol for its value, which is refused. Where foreign code calls
them, their names are given another meaning in its namespace, and in those of numpy and `math`, and the code
is traced anew. The stand-in of a type is a class as the type is: for ``isinstance``, as a dtype. Only
``type(x) is float`` would see the difference; code that asks this is left alone.
"""

import builtins
import linecache
import math
import re
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.exact.interception.algebra import FUNCTIONS
from spec_oracle.exact.interception.errors import CannotTraceError
from spec_oracle.exact.interception.libraries.numpy_arrays import converted, has_symbols
from spec_oracle.exact.interception.symbols import FLOAT, Pending, Scalar, Symbol
from verifiers.arrays import Array

_IDENTITY = re.compile(r"\bis (not )?((np|numpy)\.)?(float|single|double)")


class _NumberType(type):
    """The type of what stands in for a number type, ``real``."""

    real: type

    def __call__(cls, value: Array = 0.0, /) -> Scalar:
        element = value.item() if cls.real is float and hasattr(value, "item") else value
        if not has_symbols(element) or isinstance(element, Pending):
            return cls.real(element)
        return element if cls.real is float else converted(element, np.dtype(cls.real))[()]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)

    def __eq__(cls, other: object) -> bool:
        return other is cls.real or other is cls

    def __hash__(cls) -> int:
        return hash(cls.real)


def _stand_in(real: type) -> _NumberType:
    # To numpy any class with a dtype stands for it.
    return _NumberType(real.__name__, (), {"real": real, "dtype": np.dtype(real)})


_real_log: Final = math.log


def _log(value: Scalar, *base: float) -> Scalar:
    if not isinstance(value, Symbol):
        return _real_log(value, *base)
    return FUNCTIONS["log"](value) / (_real_log(*base) if base else 1.0)


def _of_math(name: str) -> Callable[[Scalar], Scalar]:
    real, traced = getattr(math, name), FUNCTIONS[name]
    return lambda value: traced(value) if isinstance(value, Symbol) else real(value)


_STAND_INS: Final[dict[Hashable, object]] = {
    **{real: _stand_in(real) for real in (float, np.float32, np.float64)},
    **{getattr(math, name): _of_math(name) for name in ("exp", "log1p", "log2", "log10", "expm1", "sqrt")},
    math.log: _log,
}


class FloatCalls(ExitStack):
    """The namespaces in which these names have another meaning, until the end of the context."""

    def learn(self, error: CannotTraceError) -> bool:
        """Change the meanings where ``error`` was raised; False if that would not help."""
        frame = error.frame
        if frame is None or error.operation != FLOAT:
            return False
        if _IDENTITY.search("".join(linecache.getlines(frame.f_code.co_filename))):
            return False
        names = frame.f_code.co_names
        known = [self._change(space, name) for name in names for space in (vars(np), vars(math))]
        return any([*known, *(self._change(frame.f_globals, name, vars(builtins)) for name in names)])

    def _change(
        self, namespace: dict[str, object], name: str, below: Mapping[str, object] | None = None
    ) -> bool:
        """Give one name another meaning; False if it has one already, or none that must change."""
        value = namespace.get(name, (below or {}).get(name))
        if not isinstance(value, Hashable) or value not in _STAND_INS or value is _STAND_INS[value]:
            return False
        restore = (
            partial(namespace.update, {name: value}) if name in namespace else partial(namespace.pop, name)
        )
        self.callback(restore)
        namespace[name] = _STAND_INS[value]
        return True
