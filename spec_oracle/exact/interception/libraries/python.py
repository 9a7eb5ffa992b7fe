"""Python's ``random`` on a `Source`, and ``float(u)`` or ``int(u)`` for a random number u without a value.

The methods of `random.Random` are replaced wherever an object was made.

``float(u)``, ``np.float32(u)`` and ``math.log(u)`` have to return a number, so they ask a symbol for its
value, which is refused. Where foreign code calls them, their names are given another meaning in its
namespace, and in those of numpy and `math`, and the code is traced anew. ``int(u)`` returns a random number
in the same way where u has a long range, as seeds have; in a short one it is decided. The stand-in of a type
is a class as the type is: for ``isinstance``, as a dtype. Only ``type(x) is float``, or ``is int``, would see
the difference; code that asks this is left alone.
"""

import builtins
import linecache
import math
import random
import re
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np

from spec_oracle.exact.errors import CannotTraceError
from spec_oracle.exact.interception.algebra import FUNCTIONS, decided_if_short
from spec_oracle.exact.interception.libraries import functions_replaced, methods_replaced
from spec_oracle.exact.interception.libraries.numpy_arrays import converted, has_symbols
from spec_oracle.exact.interception.own_seeds import is_untouched, note_seed
from spec_oracle.exact.interception.sources import (
    categorical,
    from_stream,
    integer,
    is_asked,
    seed_of,
    source,
)
from spec_oracle.exact.interception.symbols import FLOAT, INT, Pending, Scalar, Symbol
from verifiers.arrays import Array

T = TypeVar("T")

_bits: Final[Callable[[random.Random, int], int]] = random.Random.getrandbits
_new: Final[Callable[..., random.Random]] = random.Random.__new__
_seed: Final[Callable[..., None]] = random.Random.seed

_INVERTING: Final = ("random", "expovariate")
"""Methods that compute from what `random.Random.random` returns."""

_PLAIN: Final = ("uniform", "choice", "randint", "randrange", "shuffle", "seed", "getstate", "setstate")
"""Methods that stay as they are: they call others, or draw nothing."""


class _PythonMethods:
    """What the methods return; choices are decided at once, integers if their range is short."""

    def random(self) -> Scalar:
        """Uniform on [0, 1)."""
        return source().uniform()

    def expovariate(self, lambd: float = 1.0) -> Scalar:
        """Exponential of rate ``lambd``: -log(1 - u) / lambd."""
        return FUNCTIONS["log"](1.0 - source().uniform()) / -lambd

    def getrandbits(self, k: int) -> Scalar:
        """Uniform integer of ``k`` bits."""
        return integer(2**k)

    def _randbelow(self, n: int) -> Scalar:
        """Uniform integer below ``n``."""
        return integer(n)

    def choices(
        self,
        population: Sequence[T],
        weights: Sequence[float] | None = None,
        *,
        cum_weights: Sequence[float] | None = None,
        k: int = 1,
    ) -> list[T]:
        """Draw ``k`` elements with replacement."""
        if cum_weights is not None:
            weights = [later - earlier for earlier, later in pairwise([0.0, *map(float, cum_weights)])]
        law = [1.0] * len(population) if weights is None else [float(weight) for weight in weights]
        return [population[int(categorical(law))] for _ in range(k)]


def _drawing(name: str, kind: type[random.Random] = random.Random) -> Callable[..., object]:
    """Return what stands in for a method that draws."""
    real, formula = getattr(kind, name), vars(_PythonMethods).get(name)
    stream = "random" if name in _INVERTING else name

    def method(self: random.Random, *args: Any, **named: Any) -> object:
        # A class of the user's that draws by itself, own seeds, or names of temporary files: none of ours.
        is_theirs = type(self).random not in _traced or is_untouched(self)
        if not is_asked() or is_theirs or sys._getframe(1).f_code.co_filename == tempfile.__file__:  # noqa: SLF001
            return real(self, *args, **named)
        if formula is None:
            return source().other(f"random.{name}", real)(self, *args, **named)
        # The operating system never repeats itself.
        position = object() if isinstance(self, _OfSystem) else ("random", _bits(self, 128))
        return from_stream(position, stream, partial(formula, self, *args, **named))

    return method


def _made(kind: type[random.Random], *seed: object) -> random.Random:
    """Return a new generator; its own ``__init__`` seeds it, by a number in place of a random one."""
    return _new(kind, *map(seed_of, seed))


def _seeded(self: random.Random, a: object = None, version: int = 2) -> None:
    _seed(self, seed_of(a), version)
    if self is not _stand_in:
        note_seed(self, a)


_OfSystem: Final = random.SystemRandom
_stand_in: Final = random.Random()  # noqa: S311  (no secret)
_NAMES: Final = [name for name in random.__all__ if name[0].islower()]
_METHODS: Final[dict[str, object]] = {
    **{name: _drawing(name) for name in {*_NAMES, "_randbelow"} - {*_PLAIN}},
    "seed": _seeded,
    "__new__": staticmethod(_made),
}
_OF_SYSTEM: Final = {
    name: _drawing(name, _OfSystem) for name in ("random", "getrandbits", "_randbelow", "randbytes")
}
_traced: Final = (_METHODS["random"], _OF_SYSTEM["random"])


@contextmanager
def drawn_by_python() -> Iterator[None]:
    """Let the functions of ``random`` draw from the source in use, and all generators.

    The functions are those of another generator, so that the global one stays where it is.
    """
    _stand_in.setstate(random.getstate())
    with (
        methods_replaced(random.Random, _METHODS),
        methods_replaced(_OfSystem, _OF_SYSTEM),
        functions_replaced(random, _functions()),
    ):
        yield


@cache
def _functions() -> dict[str, object]:
    """Return methods of a generator, which stand in for the functions of the module."""
    return {name: getattr(_stand_in, name) for name in _NAMES}


_IDENTITY: Final = {
    FLOAT: re.compile(r"\bis (not )?((np|numpy)\.)?(float|single|double)"),
    INT: re.compile(r"\bis (not )?int\b"),
}


class _NumberType(type):
    """The type of what stands in for a number type, ``real``."""

    real: type

    def __call__(cls, value: Array = 0.0, /, *base: int) -> Scalar:
        element = value.item() if cls.real in (float, int) and hasattr(value, "item") else value
        if not has_symbols(element) or isinstance(element, Pending):
            return cls.real(element, *base)
        if cls.real is int:
            return decided_if_short(element)
        return element if cls.real is float else converted(element, np.dtype(cls.real))[()]

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)

    def __eq__(cls, other: object) -> bool:
        return other is cls.real or other is cls

    def __hash__(cls) -> int:
        return hash(cls.real)


def _stand_in_for(real: type) -> _NumberType:
    # numpy takes any class with a dtype for that dtype.
    return _NumberType(real.__name__, (), {"real": real, "dtype": np.dtype(real)})


_real_log: Final = math.log


def _log(value: Scalar, *base: float) -> Scalar:
    if not isinstance(value, Symbol):
        return _real_log(value, *base)
    return FUNCTIONS["log"](value) / (_real_log(*base) if base else 1.0)


def _of_math(name: str) -> Callable[[Scalar], Scalar]:
    real, traced = getattr(math, name), FUNCTIONS[name]
    return lambda value: traced(value) if isinstance(value, Symbol) else real(value)


_OF_MATH: Final = ("exp", "log1p", "log2", "log10", "expm1", "sqrt")
_STAND_INS: Final[dict[str, dict[Hashable, object]]] = {
    FLOAT: {
        **{real: _stand_in_for(real) for real in (float, np.float32, np.float64)},
        **{getattr(math, name): _of_math(name) for name in _OF_MATH},
        math.log: _log,
    },
    INT: {int: _stand_in_for(int)},
}
"""By the operation that was refused."""


class FloatCalls(ExitStack):
    """The namespaces in which these names have another meaning, until the end of the context."""

    def learn(self, error: CannotTraceError) -> bool:
        """Change the meanings where ``error`` was raised; False if that would not help."""
        frame, stand_ins = error.frame, _STAND_INS.get(error.operation)
        if frame is None or stand_ins is None:
            return False
        if _IDENTITY[error.operation].search("".join(linecache.getlines(frame.f_code.co_filename))):
            return False
        spaces = [(vars(np), {}), (vars(math), {}), (frame.f_globals, vars(builtins))]
        names = frame.f_code.co_names
        changed = [self._change(*space, name, stand_ins) for name in names for space in spaces]
        return any(changed)

    def _change(
        self,
        namespace: dict[str, object],
        below: Mapping[str, object],
        name: str,
        stand_ins: Mapping[Hashable, object],
    ) -> bool:
        """Give one name another meaning; False if it has one already, or none that must change."""
        value = namespace.get(name, below.get(name))
        if not isinstance(value, Hashable) or value not in stand_ins or value is stand_ins[value]:
            return False
        restore = (
            partial(namespace.update, {name: value}) if name in namespace else partial(namespace.pop, name)
        )
        self.callback(restore)
        namespace[name] = stand_ins[value]
        return True
