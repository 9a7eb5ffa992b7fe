"""Python's ``random`` module as enumerated decisions."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NoReturn

from spec_oracle.exact.interception.patching import patched
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import categorical, distinct, exponential, uniform


class EnumeratedRandom:
    """Stands in for ``random.Random``; integers and choices are decided at once."""

    def __init__(self, seed: Any = None) -> None:
        self.seed(seed)

    def seed(self, *_: Any) -> None:
        """Do nothing: all streams are enumerated."""

    def random(self) -> Any:
        """Uniform on (0, 1)."""
        return uniform()

    def uniform(self, a: float, b: float) -> Any:
        """Uniform on (a, b)."""
        return a + (b - a) * uniform()

    def expovariate(self, lambd: float = 1.0) -> Any:
        """Exponential of rate ``lambd``."""
        return exponential(lambd)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Draw an element of the range."""
        options = range(start) if stop is None else range(start, stop, step)
        return options[categorical([1.0] * len(options)).settled()]

    def randint(self, a: int, b: int) -> int:
        """Uniform integer from a to b, both included."""
        return self.randrange(a, b + 1)

    def choice(self, seq: Sequence[Any]) -> Any:
        """Draw one element."""
        return seq[self.randrange(len(seq))]

    def choices(
        self,
        population: Sequence[Any],
        weights: Sequence[float] | None = None,
        *,
        cum_weights: Sequence[float] | None = None,
        k: int = 1,
    ) -> list[Any]:
        """Draw ``k`` elements with replacement."""
        if cum_weights is not None:
            weights = [later - earlier for earlier, later in pairwise([0.0, *map(float, cum_weights)])]
        law = [1.0] * len(population) if weights is None else [float(weight) for weight in weights]
        return [population[categorical(law).settled()] for _ in range(k)]

    def sample(self, population: Sequence[Any], k: int) -> list[Any]:
        """Draw ``k`` different elements."""
        return [population[pending.settled()] for pending in distinct([1.0] * len(population), k)]

    def shuffle(self, x: Any) -> None:
        """Put the list in random order."""
        x[:] = self.sample(x, len(x))


_STATE_ACCESS = frozenset({"getstate", "setstate"})


@contextmanager
def enumerated_python() -> Iterator[None]:
    """Replace the functions of ``random``; those without an enumerated version raise."""
    stand_in = EnumeratedRandom()
    names = [name for name in random.__all__ if name[0].islower() and name not in _STATE_ACCESS]
    replacements = {name: getattr(stand_in, name, _refusal(name)) for name in names}
    with patched(random, replacements | {"Random": EnumeratedRandom, "SystemRandom": EnumeratedRandom}):
        yield


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        current_run().cannot_follow(f"random.{name}", "no enumerated version of this distribution")

    return refuse
