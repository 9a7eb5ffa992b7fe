"""``float(u)`` for a random number u without a value.

``float`` has to return a float, so it asks a symbol for its value, which is refused. Where foreign code calls
it, the name ``float`` is given another meaning in the namespace of that code, and the code is traced anew.
The stand-in is a class as `float` is: for ``isinstance``, as a dtype, as a parent. Only ``type(x) is float``
would see the difference; code that asks this is left alone.
"""

import linecache
import re
from contextlib import ExitStack
from typing import Any

import numpy as np

from spec_oracle.exact.interception.errors import CannotTraceError
from spec_oracle.exact.interception.symbols import FLOAT, Pending, Symbol

_IDENTITY = re.compile(r"\bis (not )?float\b")


class _FloatType(type):
    def __call__(cls, value: Any = 0.0, /) -> Any:
        element = value.item() if hasattr(value, "item") else value
        is_traced = isinstance(element, Symbol) and not isinstance(element, Pending)
        return element if is_traced else float(element)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, float)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, float)

    def __eq__(cls, other: object) -> bool:
        return other is float or other is cls

    def __hash__(cls) -> int:
        return hash(float)


class TracedFloat(float, metaclass=_FloatType):
    """Stands in for ``float``."""

    dtype = np.dtype(np.float64)


class FloatCalls(ExitStack):
    """The namespaces in which ``float`` has its other meaning, until the end of the context."""

    def learn(self, error: CannotTraceError) -> bool:
        """Change the meaning where ``error`` was raised; False if that would not help."""
        frame = error.frame
        if frame is None or error.operation != FLOAT or "float" not in frame.f_code.co_names:
            return False
        namespace = frame.f_globals
        if namespace.get("float", float) is not float:
            return False
        if _IDENTITY.search("".join(linecache.getlines(frame.f_code.co_filename))):
            return False
        restore = namespace.update if "float" in namespace else lambda _: namespace.pop("float")
        self.callback(restore, {"float": float})
        namespace["float"] = TracedFloat
        return True
