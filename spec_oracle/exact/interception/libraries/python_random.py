"""Python's ``random`` module on a `Source`."""

import random
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, TypeVar

from spec_oracle.exact.interception.algebra import FUNCTIONS
from spec_oracle.exact.interception.draws import categorical, distinct, integer, source
from spec_oracle.exact.interception.libraries import copied_as, copies, replaced
from spec_oracle.exact.interception.symbols import Scalar

T = TypeVar("T")

_Random: Final = random.Random  # the name is replaced while draws are traced


class DrawnRandom:
    """Stands in for ``random.Random``; choices are decided at once, integers if their range is short."""

    def __init__(self, *_: object) -> None:
        self._real = _Random(0)

    def seed(self, *_: object, **__: object) -> None:
        """Do nothing: all streams are traced."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)
        return source().other(f"random.{name}", getattr(self._real, name))

    def random(self) -> Scalar:
        """Uniform on [0, 1)."""
        return source().uniform()

    def uniform(self, a: float, b: float) -> Scalar:
        """Uniform on [a, b)."""
        return a + (b - a) * source().uniform()

    def expovariate(self, lambd: float = 1.0) -> Scalar:
        """Exponential of rate ``lambd``: -log(1 - u) / lambd."""
        return FUNCTIONS["log"](1.0 - source().uniform()) / -lambd

    def getrandbits(self, k: int) -> Scalar:
        """Uniform integer of ``k`` bits."""
        return integer(2**k)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> Scalar:
        """Draw an element of the range."""
        first, end = (0, start) if stop is None else (start, stop)
        return first + step * integer(-((first - end) // step))

    def randint(self, a: int, b: int) -> Scalar:
        """Uniform integer from a to b, both included."""
        return self.randrange(a, b + 1)

    def choice(self, seq: Sequence[T]) -> T:
        """Draw one element."""
        return seq[integer(len(seq))]

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

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Draw ``k`` different elements."""
        return [population[int(place)] for place in distinct([1.0] * len(population), k)]

    def shuffle(self, x: MutableSequence[T]) -> None:
        """Put the list in random order."""
        x[:] = self.sample(x, len(x))


@contextmanager
def drawn_by_python() -> Iterator[None]:
    """Let the functions of ``random`` draw from the source in use."""
    stand_in = DrawnRandom()
    names = [name for name in random.__all__ if name[0].islower() and name != "getstate"]
    functions: dict[str, object] = {name: getattr(stand_in, name) for name in names}
    copied = {_Random: copied_as(lambda _: DrawnRandom(), lambda one: one.getstate())}
    with replaced(random, Random=DrawnRandom, SystemRandom=DrawnRandom, **functions), copies(copied):
        yield
