"""numpy's random functions on a `Source`: the methods of its generators, wherever an object was made."""
# ruff: noqa: FBT001, FBT002, PLR0917  (numpy's signatures)

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from spec_oracle.arrays import Floats, Size
from spec_oracle.exact.interception.algebra import FUNCTIONS
from spec_oracle.exact.interception.draws import Noise
from spec_oracle.exact.interception.libraries import functions_replaced, methods_replaced, replaced
from spec_oracle.exact.interception.libraries.numpy_arrays import as_numbers, drawn
from spec_oracle.exact.interception.own_seeds import is_untouched, note_seed
from spec_oracle.exact.interception.run import OwnRandom
from spec_oracle.exact.interception.sources import (
    categorical,
    distinct,
    from_stream,
    integer,
    is_asked,
    seed_of,
    source,
)
from spec_oracle.exact.interception.symbols import Scalar
from verifiers.arrays import Array

_BITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24}


def _exponential(bits: int = 53, *, zero: bool = True) -> Scalar:
    """Return -log(1 - u). numpy's ziggurat has the same ends: 0 is possible, infinity is not."""
    return -FUNCTIONS["log1p"](-source().uniform(bits, zero=zero))


def _gumbel() -> Scalar:
    """Return -log(-log(1 - u)); numpy draws again when u is 0."""
    return -FUNCTIONS["log"](_exponential(zero=False))


class _GeneratorMethods:
    """What the methods of a ``numpy.random.Generator`` return.

    Integers of a short range are decided at once.
    """

    def random(self, size: Size = None, dtype: DTypeLike = np.float64, out: Array = None) -> Array:
        """Uniform on [0, 1)."""
        return drawn(size, partial(source().uniform, _bits(dtype)), dtype, out, is_formula=True)

    def uniform(self, low: Array = 0.0, high: Array = 1.0, size: Size = None) -> Array:
        """Uniform on [low, high)."""
        return low + (high - low) * drawn(_shape(size, low, high), source().uniform, is_formula=True)

    def standard_exponential(
        self, size: Size = None, dtype: DTypeLike = np.float64, method: str = "zig", out: Array = None
    ) -> Array:
        """Exponential of rate one."""
        del method
        return drawn(size, partial(_exponential, _bits(dtype)), dtype, out, is_formula=True)

    def exponential(self, scale: Array = 1.0, size: Size = None) -> Array:
        """Exponential with mean ``scale``."""
        noise = drawn(_shape(size, scale), _exponential, is_formula=True)
        return noise if np.ndim(scale) == 0 and scale == 1 else scale * noise

    def gumbel(self, loc: Array = 0.0, scale: Array = 1.0, size: Size = None) -> Array:
        """Gumbel noise."""
        noise = drawn(_shape(size, loc, scale), _gumbel, is_formula=True)
        return (
            noise if np.ndim(loc) == np.ndim(scale) == 0 and (loc, scale) == (0, 1) else loc + scale * noise
        )

    def integers(
        self,
        low: Array,
        high: Array = None,
        size: Size = None,
        dtype: DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> Array:
        """Uniform integers from low (inclusive) to high."""
        first, last = (0, low) if high is None else (low, high)
        pairs = np.broadcast(np.asarray(first, object), np.asarray(last, object) + bool(endpoint))
        if size is None and pairs.shape == ():
            number = _between(*next(pairs))
            return number if isinstance(number, Noise) else np.dtype(dtype).type(number)
        shape = pairs.shape if size is None else np.empty(size).shape
        bounds = iter(np.broadcast(*pairs.iters, np.empty(shape)))
        return drawn(shape, lambda: _between(*next(bounds)[:2]), dtype)

    def choice(
        self,
        a: Array,
        size: Size = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Array:
        """Draw elements of ``a`` with probabilities ``p``."""
        del shuffle
        population = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        weights = np.ones(population.shape[axis]) if p is None else _probabilities(p)
        if replace or size is None:
            index = drawn(size, lambda: int(categorical(weights)), np.int64)
        else:
            places = distinct(weights, math.prod(np.empty(size).shape))
            index = np.array([*map(int, places)], dtype=np.int64).reshape(size)
        return np.take(population, index, axis=axis)

    def binomial(self, n: ArrayLike, p: ArrayLike, size: Size = None) -> Array:
        """Count the successes of ``n`` trials, of chance ``p`` each."""
        chances = np.asarray(p, dtype=float)
        if not ((chances >= 0) & (chances <= 1)).all():
            raise ValueError("p < 0, p > 1 or p is NaN")  # as numpy does
        pairs = np.broadcast(np.asarray(n), chances, np.empty(() if size is None else size))
        return drawn(pairs.shape or None, lambda: _successes(*next(pairs)[:2]), np.int64)

    def multinomial(self, n: ArrayLike, pvals: ArrayLike, size: Size = None) -> Array:
        """Count ``n`` draws from ``pvals``."""
        laws = np.asarray(pvals)
        shape = np.broadcast_shapes(np.shape(n), laws.shape[:-1]) if size is None else np.empty(size).shape
        laws, totals = np.broadcast_to(laws, (*shape, laws.shape[-1])), np.broadcast_to(n, shape)
        counts = np.zeros(laws.shape, dtype=np.int64)
        for index in np.ndindex(shape):
            for _ in range(int(totals[index])):
                counts[(*index, int(categorical(_shares(laws[index]))))] += 1
        return counts


class _LegacyMethods(_GeneratorMethods):
    """What the methods of a ``numpy.random.RandomState`` return."""

    def random_sample(self, size: Size = None) -> Array:
        """Uniform on [0, 1)."""
        return self.random(size)

    def rand(self, *shape: int) -> Array:
        """Uniform on [0, 1), shape given as arguments."""
        return self.random(shape or None)

    def randint(
        self, low: Array, high: Array = None, size: Size = None, dtype: DTypeLike = np.int64
    ) -> Array:
        """Uniform integers from low (inclusive) to high (exclusive)."""
        return self.integers(low, high, size, dtype)


_bits_of: Final = np.random.BitGenerator.random_raw
_default_rng: Final = np.random.default_rng
_really_seed: Final[Callable[..., None]] = np.random.RandomState.seed


def _made(seed: object = None) -> np.random.Generator:
    """Return a seeded generator; a number takes the place of a random one."""
    generator = _default_rng(seed_of(seed))  # type: ignore[arg-type]  # whatever the code gives
    note_seed(generator, seed)
    return generator


class _OfLegacy(type):
    """Whatever was made as a ``RandomState`` is an object of the class in its place, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _legacy)


_legacy: Final = np.random.RandomState


class _LegacyMade(np.random.RandomState, metaclass=_OfLegacy):
    """The same as `_made`, for those who make a ``RandomState``."""

    def __init__(self, seed: object = None) -> None:
        super().__init__(seed_of(seed))  # type: ignore[arg-type]  # whatever the code gives
        note_seed(self, seed)


def _seeded(self: np.random.RandomState, seed: object = None) -> None:
    _really_seed(self, seed_of(seed))
    if self is not _stand_in:
        note_seed(self, seed)


def _drawing(kind: type, name: str, formulas: type) -> Callable[..., object]:
    """Return what stands in for a method that draws, or shows random bits."""
    real, formula = getattr(kind, name), getattr(formulas, name, None)
    stream, drawn_by = "random" if name in _UNIFORMS else name, formulas()

    def method(self: Any, *args: Any, **named: Any) -> object:
        if not is_asked():
            return real(self, *args, **named)
        if is_untouched(self):
            numbers = {name: as_numbers(value) for name, value in named.items()}
            return real(self, *map(as_numbers, args), **numbers)
        if formula is None:
            return source().other(f"{kind.__name__}.{name}", real)(self, *args, **named)
        position = "numpy", _bits_of(self._bit_generator, _STAMP).tobytes()
        return from_stream(position, stream, partial(formula, drawn_by, *args, **named))

    return method


def _showing(name: str) -> property:
    """Return what stands in for an attribute with which compiled code draws."""
    real = getattr(np.random.BitGenerator, name).__get__

    def shown(self: np.random.BitGenerator) -> object:
        return source().other(f"bit_generator.{name}", real)(self) if is_asked() else real(self)

    return property(shown)


_UNIFORMS: Final = ("random", "uniform", "random_sample", "rand")
"""Methods that compute from uniform numbers."""
_STAMP: Final = 4
"""Numbers of 32 bits or more that a generator draws in each call of a method: if equal, generators are."""

_PLAIN: Final = frozenset(("spawn", "bit_generator", "seed", "get_state", "set_state"))
_METHODS: Final[dict[type, dict[str, object]]] = {
    kind: {
        name: _drawing(kind, name, formulas)
        for name in vars(kind)
        if not name.startswith("_") and name not in _PLAIN
    }
    for kind, formulas in ((np.random.Generator, _GeneratorMethods), (np.random.RandomState, _LegacyMethods))
}
_METHODS[np.random.RandomState]["seed"] = _seeded
_METHODS[np.random.BitGenerator] = {
    "random_raw": _drawing(np.random.BitGenerator, "random_raw", object),
    "ctypes": _showing("ctypes"),
    "cffi": _showing("cffi"),
}
_NAMES: Final = [name for name in np.random.__all__ if hasattr(np.random.RandomState, name)]
_stand_in: Final = np.random.RandomState()
_own: Final = OwnRandom()
_ALIASES: Final = {"ranf": "random_sample", "sample": "random_sample"}


@contextmanager
def drawn_by_numpy(seed: int | None = None) -> Iterator[None]:
    """Let the functions of ``numpy.random`` draw from the source in use, and all generators.

    The functions are those of another generator, so that the global one stays where it is; with ``seed``, of
    one with that seed.
    """
    if seed is None:
        _stand_in.set_state(np.random.get_state(legacy=False))  # noqa: NPY002
    else:
        _stand_in.seed(seed % 2**32)  # the most that it takes
    with ExitStack() as methods:
        # Seeds of generators without one: what is drawn of the system's entropy is looked at.
        methods.enter_context(replaced(np.random.bit_generator, randbits=_own.getrandbits))
        for kind, changed in _METHODS.items():
            methods.enter_context(methods_replaced(kind, changed))
        methods.enter_context(functions_replaced(np.random, _functions()))
        yield


@cache
def _functions() -> dict[str, object]:
    """Return methods of a generator, which stand in for the functions of the module."""
    functions = {name: getattr(_stand_in, name) for name in _NAMES}
    aliases = {name: getattr(_stand_in, other) for name, other in _ALIASES.items()}
    return {**functions, **aliases, "default_rng": _made, "RandomState": _LegacyMade}


def _bits(dtype: DTypeLike) -> int:
    if np.dtype(dtype) not in _BITS:
        raise TypeError(f"Unsupported dtype {np.dtype(dtype)} for random")  # as numpy does
    return _BITS[np.dtype(dtype)]


def _shape(size: Size, *parameters: ArrayLike) -> Size:
    """Return the shape of the draws: ``size``, or what the parameters broadcast to (None for a scalar)."""
    return size if size is not None else np.broadcast_shapes(*(np.shape(p) for p in parameters)) or None


def _between(first: int, stop: int) -> Scalar:
    return first + integer(stop - first)


def _successes(trials: int, chance: float) -> int:
    return sum(int(categorical(np.array([1 - chance, chance]))) for _ in range(trials))


def _probabilities(p: ArrayLike) -> Floats:
    weights = np.asarray(p).astype(float)
    if not _sums_to_one(p):
        raise ValueError("Probabilities do not sum to 1")  # as numpy does
    return weights


def _sums_to_one(p: ArrayLike) -> bool:
    """Whether probabilities sum to 1 up to the rounding that ``choice`` of numpy allows their type."""
    given = np.asarray(p)
    eps = np.finfo(given.dtype if given.dtype.kind == "f" else float).eps
    return not abs(given.astype(float).sum() - 1) > math.sqrt(eps)


def _shares(p: ArrayLike) -> Floats:
    """Return the probabilities of ``multinomial``, whose last outcome has what the others leave of 1.

    Where all sum to 1 but for rounding that is the last one's own: no outcome of probability 0 comes of it.
    """
    weights = np.asarray(p).astype(float)
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError("pvals < 0, pvals > 1 or pvals contains NaNs")  # as numpy does
    rest = 1 - math.fsum(weights[:-1])
    if rest < -1e-12:
        raise ValueError("sum(pvals[:-1]) > 1.0")  # as numpy does
    return weights if _sums_to_one(p) else np.append(weights[:-1], max(rest, 0.0))
