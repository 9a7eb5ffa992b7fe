"""numpy's random functions on a `Source`: a generator to hand out, and the legacy functions."""
# ruff: noqa: FBT001, FBT002, PLR0917  (numpy's signatures)

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from spec_oracle.arrays import Floats, Size
from spec_oracle.exact.interception.algebra import FUNCTIONS
from spec_oracle.exact.interception.draws import Noise, Traced, categorical, distinct, integer, source
from spec_oracle.exact.interception.libraries import copied_as, copies, replaced
from spec_oracle.exact.interception.libraries.numpy_arrays import drawn
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Scalar
from verifiers.arrays import Array

_GeneratorBase: Any = np.random.Generator  # its overloads are not repeated here
_RandomState: Any = np.random.RandomState  # the name is replaced while draws are traced
_BITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24}


def _exponential(bits: int = 53, *, zero: bool = True) -> Scalar:
    """Return -log(1 - u). numpy's ziggurat has the same ends: 0 is possible, infinity is not."""
    return -FUNCTIONS["log1p"](-source().uniform(bits, zero=zero))


def _gumbel() -> Scalar:
    """Return -log(-log(1 - u)); numpy draws again when u is 0."""
    return -FUNCTIONS["log"](_exponential(zero=False))


class EnumeratedGenerator(_GeneratorBase):  # type: ignore[misc]
    """A ``numpy.random.Generator`` that draws from the source in use: inside `enumerate_calls`, traced.

    Integers of a short range are decided at once. For distributions that are not listed the source has an
    answer, or raises `CannotTraceError`.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__(np.random.PCG64(seed))

    def __reduce__(self) -> Any:
        """Refuse to be copied while it is traced: numpy would make an ordinary generator of the copy."""
        return source().other("copy of a generator", super().__reduce__)()

    @property
    def bit_generator(self) -> "np.random.BitGenerator | _TracedBits":
        """Its source of bits; while it is traced, a state that may be set back if nothing was drawn."""
        return _TracedBits() if isinstance(source(), Traced) else super().bit_generator

    def spawn(self, n_children: int) -> list["EnumeratedGenerator"]:
        """Return independent generators."""
        return [EnumeratedGenerator(number) for number in range(n_children)]

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
            index = np.array(_order(weights, math.prod(np.empty(size).shape)), dtype=np.int64).reshape(size)
        return np.take(population, index, axis=axis)

    def multinomial(self, n: ArrayLike, pvals: ArrayLike, size: Size = None) -> Array:
        """Count ``n`` draws from ``pvals``."""
        laws = np.asarray(pvals, dtype=float)
        shape = np.broadcast_shapes(np.shape(n), laws.shape[:-1]) if size is None else np.empty(size).shape
        laws, totals = np.broadcast_to(laws, (*shape, laws.shape[-1])), np.broadcast_to(n, shape)
        counts = np.zeros(laws.shape, dtype=np.int64)
        for index in np.ndindex(shape):
            for _ in range(int(totals[index])):
                counts[(*index, int(categorical(_probabilities(laws[index]))))] += 1
        return counts

    def permutation(self, x: Array, axis: int = 0) -> Array:
        """Return the elements in random order."""
        population = np.arange(x) if np.ndim(x) == 0 else np.asarray(x)
        return np.take(population, _order(np.ones(population.shape[axis])), axis=axis)

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Put the elements in random order, in place."""
        order = _order(np.ones(np.shape(x)[axis] if isinstance(x, np.ndarray) else len(x)))
        x[:] = np.take(x, order, axis=axis) if isinstance(x, np.ndarray) else [x[i] for i in order]


class _TracedBits:
    """What is left of the bits of a generator that is traced."""

    @property
    def state(self) -> dict[str, int]:
        """How far the run has come."""
        return {"steps": current_run().steps}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        if state != self.state:
            current_run().cannot_trace("state of a generator", "setting it back would repeat random numbers")

    def __getattr__(self, name: str) -> NoReturn:
        current_run().cannot_trace(f"bit_generator.{name}", "it reads random bits")


class EnumeratedRandomState(EnumeratedGenerator):
    """Stands in for ``numpy.random.RandomState``: the legacy names."""

    def seed(self, *_: object) -> None:
        """Do nothing: all streams are traced."""

    def random_sample(self, size: Size = None) -> Array:
        """Uniform on [0, 1)."""
        return self.random(size)

    ranf = sample = random_sample

    def rand(self, *shape: int) -> Array:
        """Uniform on [0, 1), shape given as arguments."""
        return self.random(shape or None)

    def randint(
        self, low: Array, high: Array = None, size: Size = None, dtype: DTypeLike = np.int64
    ) -> Array:
        """Uniform integers from low (inclusive) to high (exclusive)."""
        return self.integers(low, high, size, dtype)


class _AnyGenerator(type):
    """Makes ``numpy.random.Generator`` a traced generator when called, and all generators its instances."""

    def __call__(cls, *_: object, **__: object) -> EnumeratedGenerator:
        return _made(EnumeratedGenerator)("bits")

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _GeneratorBase)


def _made(kind: type[EnumeratedGenerator], stand_in: int = 0) -> Callable[..., EnumeratedGenerator]:
    """Return what makes generators, and takes notes of those that have a seed."""

    def make(*seed: object, **named: object) -> EnumeratedGenerator:
        if seed or named:
            current_run().makes_generators = True
        return kind(stand_in)

    return make


_Generator = _AnyGenerator("Generator", (_GeneratorBase,), {})
_LISTED = frozenset(name for name in vars(EnumeratedGenerator) if not name.startswith("_"))


def _unlisted(name: str) -> Callable[..., object]:
    def method(self: EnumeratedGenerator, *args: object, **kwargs: object) -> object:
        return source().other(f"Generator.{name}", getattr(_GeneratorBase, name))(self, *args, **kwargs)

    return method


for _name in dir(_GeneratorBase):
    if not _name.startswith("_") and _name not in _LISTED:
        setattr(EnumeratedGenerator, _name, _unlisted(_name))


@contextmanager
def drawn_by_numpy(seed: int = 0) -> Iterator[None]:
    """Let the functions of ``numpy.random`` draw from the source in use."""
    stand_in = EnumeratedRandomState(seed)
    functions: dict[str, object] = {
        name: getattr(stand_in, name)
        if name in vars(EnumeratedRandomState) or name in _LISTED
        else source().other(f"numpy.random.{name}", getattr(np.random, name))
        for name in np.random.__all__
        if name[0].islower() and name != "get_state"
    }
    functions["default_rng"] = _made(EnumeratedGenerator, seed)
    functions["RandomState"] = _made(EnumeratedRandomState, seed)
    copied = {
        _GeneratorBase: copied_as(
            lambda _: EnumeratedGenerator(seed), lambda one: pickle.dumps(one.bit_generator.state)
        ),
        _RandomState: copied_as(
            lambda _: EnumeratedRandomState(seed), lambda one: pickle.dumps(one.get_state(legacy=False))
        ),
    }
    with replaced(np.random, Generator=_Generator, **functions), copies(copied):
        yield


def _bits(dtype: DTypeLike) -> int:
    if np.dtype(dtype) not in _BITS:
        raise TypeError(f"Unsupported dtype {np.dtype(dtype)} for random")  # as numpy does
    return _BITS[np.dtype(dtype)]


def _shape(size: Size, *parameters: ArrayLike) -> Size:
    """Return the shape of the draws: ``size``, or what the parameters broadcast to (None for a scalar)."""
    return size if size is not None else np.broadcast_shapes(*(np.shape(p) for p in parameters)) or None


def _between(first: int, stop: int) -> Scalar:
    return first + integer(stop - first)


def _order(weights: Sequence[float] | Floats, count: int | None = None) -> list[int]:
    """Return so many different indices, or all, in random order."""
    return [int(place) for place in distinct(weights, len(weights) if count is None else count)]


def _probabilities(p: ArrayLike) -> Floats:
    given = np.asarray(p)
    weights = given.astype(float)
    if abs(weights.sum() - 1) > math.sqrt(np.finfo(given.dtype if given.dtype.kind == "f" else float).eps):
        raise ValueError("Probabilities do not sum to 1")  # as numpy does
    return weights
