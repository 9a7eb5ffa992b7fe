"""Python's ``random`` module on a `Source`: the methods of `random.Random`, wherever an object was made."""

import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, TypeVar

from spec_oracle.exact.interception.algebra import FUNCTIONS
from spec_oracle.exact.interception.libraries import functions_replaced, methods_replaced
from spec_oracle.exact.interception.sources import (
    categorical,
    from_stream,
    integer,
    is_asked,
    seed_of,
    source,
)
from spec_oracle.exact.interception.symbols import Scalar

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
        # A class of the user's that draws by itself, or names of temporary files: no random numbers of ours.
        is_theirs = type(self).random not in _traced
        if not is_asked() or is_theirs or sys._getframe(1).f_code.co_filename == tempfile.__file__:  # noqa: SLF001
            return real(self, *args, **named)
        if formula is None:
            return source().other(f"random.{name}", real)(self, *args, **named)
        # The operating system never repeats itself.
        position = object() if isinstance(self, _OfSystem) else ("random", _bits(self, 128))
        return from_stream(position, stream, partial(formula, self, *args, **named))

    return method


def _made(kind: type[random.Random], *seed: object) -> random.Random:
    """Return a new generator; its own ``__init__`` seeds it, by a number that stands for a random one."""
    return _new(kind, *map(seed_of, seed))


def _seeded(self: random.Random, a: object = None, version: int = 2) -> None:
    _seed(self, seed_of(a), version)


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
