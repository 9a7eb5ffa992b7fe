"""Symbols: random numbers without a value yet, which pass for numbers in foreign code and compute lazily.

To Python a symbol *is* a float or an integer (``isinstance`` asks ``__class__``), but it is no subclass of
them: C code that wants the number has to ask ``__float__`` or ``__index__``, which decide or raise. A
subclass of float would hand over its own value without asking.

The operators and numpy's protocol are put on `Symbol` by `algebra` and by `libraries.numpy_arrays`, which
know how to compute with it.
"""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Self, SupportsIndex, TypeAlias

import numpy as np

from spec_oracle.exact.interception.run import current_run

Scalar: TypeAlias = Any  # a number (Python, numpy, or 0-d array) or a Symbol

DOUBLE = np.float64
"""Bound here because the name in numpy may be replaced in a run; so is `float`."""

TEXT = "<random number>"
"""How a random number without a value looks in a text, as that of a log."""


FLOAT, INT = "float()", "int()"
"""The operations of asking for a number of Python."""


class Symbol:
    """A value the foreign code computes with as if it were a number."""

    __slots__ = ()
    shape, ndim, size = (), 0, 1

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type it passes for."""
        return DOUBLE

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The number type that it passes for."""
        return np.dtype(self.__class__)

    @classmethod
    def __torch_function__(
        cls, func: object, types: object, args: object = (), kwargs: object = None
    ) -> object:
        """Make torch accept symbols among its arguments; `torch_mode` has answered before this is asked."""
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.settled("hash()"))

    def __float__(self) -> float:
        return float(self.settled(FLOAT))

    def __index__(self) -> int:
        return int(self.settled("use as an index"))

    def to_bytes(self, *size: Any, **more: Any) -> bytes:
        """Return the bytes of its value, as integers do."""
        return int(self.settled("to_bytes")).to_bytes(*size, **more)

    def item(self) -> Self:
        """Return itself, as numbers of numpy do; so do the copies: a draw that is used twice is one draw."""
        return self

    tolist = copy = __copy__ = item

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type, tuple[float]]:
        number = self.settled("pickle")
        return type(number), (number,)

    def __repr__(self) -> str:
        return TEXT

    def __format__(self, spec: str) -> str:
        return str(self)

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(DOUBLE, name):
            current_run().cannot_trace(f".{name}", "an attribute that random numbers do not have here")
        raise AttributeError(name)

    def settled(self, operation: str) -> float:
        """Return its value; raises `CannotTraceError` where it has a continuum of values."""
        current_run().cannot_trace(operation, "it needs the value of a random number")


class Pending(Symbol):
    """An integer that is decided when first used; independent of all that is decided before.

    Deferring is exact: the law of the outcome, given the past, is the same whenever it is asked for. A
    pending integer that nothing ever uses has no influence, and costs no branches.
    """

    __slots__ = ("_choose", "_value")

    def __init__(self, choose: Callable[[], int]) -> None:
        self._choose = choose
        self._value: int | None = None

    @property
    def is_decided(self) -> bool:
        """Whether it has a value."""
        return self._value is not None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What it passes for."""
        return int

    def __format__(self, spec: str) -> str:
        return format(self.settled(), spec)

    def __repr__(self) -> str:
        return repr(self.settled())

    def settled(self, operation: str = "") -> int:  # noqa: ARG002  (part of the interface)
        """Return its value, which is decided now unless it was before."""
        if self._value is None:
            self._value = self._choose()
        return self._value


class Untraceable(Symbol):
    """A value that cannot be traced, such as the highest score of a race: any use of it raises."""

    __slots__ = ("_origin",)

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def settled(self, operation: str) -> NoReturn:
        """Raise `CannotTraceError`."""
        current_run().cannot_trace(operation, f"it needs the value of {self._origin}")


def any_symbol(values: Iterable[object]) -> bool:
    """Whether a symbol is among values; each type of them is looked at once, since they may be many."""
    return any(issubclass(kind, Symbol) for kind in set(map(type, values)))
