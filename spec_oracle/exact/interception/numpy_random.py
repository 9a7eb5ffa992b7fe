"""numpy's random functions as enumerated decisions: a generator to hand out, and the legacy functions."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from spec_oracle.exact.interception.numpy_arrays import symbols
from spec_oracle.exact.interception.patching import patched
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import categorical, distinct, exponential, gumbel, uniform

_GeneratorBase: Any = np.random.Generator  # its overloads are not repeated here


class EnumeratedGenerator(_GeneratorBase):  # type: ignore[misc]
    """A ``numpy.random.Generator`` whose draws are enumerated; it only works inside `enumerate_calls`.

    Integer draws are decided at once. Distributions that are not listed raise `CannotFollowError`.
    """

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: numpy would make an ordinary generator of the copy."""
        current_run().cannot_follow("copy of a generator", "its draws repeat those of the original")

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:  # noqa: ARG002
        """Uniform on (0, 1)."""
        _refuse_out(out)
        return symbols(size, uniform)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform on (low, high)."""
        return low + (high - low) * symbols(_shape(size, low, high), uniform)

    def standard_exponential(
        self,
        size: Any = None,
        dtype: Any = np.float64,  # noqa: ARG002
        method: str = "zig",  # noqa: ARG002
        out: Any = None,
    ) -> Any:
        """Exponential of rate one."""
        _refuse_out(out)
        return symbols(size, exponential)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential with mean ``scale``."""
        return scale * symbols(_shape(size, scale), exponential)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Gumbel noise."""
        return loc + scale * symbols(_shape(size, loc, scale), gumbel)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,  # noqa: FBT001, FBT002  (numpy's signature)
    ) -> Any:
        """Uniform integers from low (inclusive) to high."""
        first, last = (0, low) if high is None else (low, high)
        weights = [1.0] * (last - first + bool(endpoint))
        return _decided(size, lambda: first + categorical(weights).settled(), dtype)

    def choice(  # noqa: PLR0917  (numpy's signature)
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,  # noqa: FBT001, FBT002
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,  # noqa: ARG002, FBT001, FBT002
    ) -> Any:
        """Draw elements of ``a`` with probabilities ``p``."""
        population = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        weights = [1.0] * population.shape[axis] if p is None else _probabilities(p)
        if replace or size is None:
            index = _decided(size, lambda: categorical(weights).settled(), np.int64)
        else:
            draws = distinct(weights, math.prod(np.empty(size).shape))
            index = np.array([draw.settled() for draw in draws], dtype=np.int64).reshape(size)
        return np.take(population, index, axis=axis)

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Count ``n`` draws from ``pvals``."""
        if np.ndim(pvals) != 1 or np.ndim(n) != 0:
            current_run().cannot_follow("numpy multinomial", "batched probabilities")
        weights = _probabilities(pvals)

        def counts() -> Any:
            drawn = [categorical(weights).settled() for _ in range(int(n))]
            return np.bincount(drawn, minlength=len(weights))

        shape = () if size is None else np.empty(size).shape
        stacked = np.array([counts() for _ in range(math.prod(shape))])
        return stacked.reshape(*shape, len(weights))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return the elements in random order."""
        population = np.arange(x) if np.ndim(x) == 0 else np.asarray(x)
        order = distinct([1.0] * population.shape[axis], population.shape[axis])
        return np.take(population, [pending.settled() for pending in order], axis=axis)


class EnumeratedRandomState(EnumeratedGenerator):
    """Stands in for ``numpy.random.RandomState``: the legacy names."""

    def seed(self, *_: Any) -> None:
        """Do nothing: all streams are enumerated."""

    def random_sample(self, size: Any = None) -> Any:
        """Uniform on (0, 1)."""
        return self.random(size)

    ranf = sample = random_sample

    def rand(self, *shape: int) -> Any:
        """Uniform on (0, 1), shape given as arguments."""
        return self.random(shape or None)

    def randint(self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64) -> Any:
        """Uniform integers from low (inclusive) to high (exclusive)."""
        return self.integers(low, high, size, dtype)


@contextmanager
def enumerated_numpy() -> Iterator[None]:
    """Replace the functions of ``numpy.random``; those without an enumerated version raise."""
    stand_in = EnumeratedRandomState()
    names = [name for name in np.random.__all__ if name[0].islower() and name not in _STATE_ACCESS]
    replacements = {name: getattr(stand_in, name, _refusal(f"numpy.random.{name}")) for name in names}
    classes = {
        "default_rng": lambda *_: EnumeratedGenerator(),
        "RandomState": lambda *_: EnumeratedRandomState(),
    }
    with patched(np.random, replacements | classes):
        yield


_STATE_ACCESS = frozenset({"get_state", "set_state"})


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        current_run().cannot_follow(name, "no enumerated version of this distribution")

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in vars(EnumeratedGenerator) and _name != "bit_generator":
        setattr(EnumeratedGenerator, _name, _refusal(f"Generator.{_name}"))


def _refuse_out(out: Any) -> None:
    if out is not None:
        current_run().cannot_follow("out=", "random numbers would be written into an ordinary array")


def _shape(size: Any, *parameters: Any) -> Any:
    """Return the shape of the draws: ``size``, or what the parameters broadcast to (None for a scalar)."""
    return size if size is not None else np.broadcast_shapes(*(np.shape(p) for p in parameters)) or None


def _decided(size: Any, draw: Any, dtype: Any) -> Any:
    if size is None:
        return draw()
    array = np.empty(size, dtype=dtype)
    for index in np.ndindex(array.shape):
        array[index] = draw()
    return array


def _probabilities(p: Any) -> list[float]:
    weights = np.asarray(p, dtype=float)
    if abs(weights.sum() - 1) > math.sqrt(np.finfo(float).eps):
        raise ValueError("Probabilities do not sum to 1")  # as numpy does
    return [float(weight) for weight in weights]
