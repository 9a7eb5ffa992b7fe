"""One run of foreign code with sampled decisions, and the probability with which they fall so.

Where every request's outcome is one decision of known probability, the probability of a run is their product
if no two requests share a random number, and is another one else: a shared number is decided once.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from spec_oracle.exact.interception.decisions import normalised
from spec_oracle.exact.interception.run import Deadline, Run, along
from spec_oracle.exact.representatives import Indices, Law

T = TypeVar("T")


class Leaf(NamedTuple, Generic[T]):
    """What one run with sampled decisions returned, and the log of their probability."""

    log_chance: float
    result: T
    makes_generators: bool


class RandomRun(Run):
    """A run without a script, whose decisions are sampled."""

    rng: np.random.Generator
    log_chance = 0.0

    def decide(
        self, weights: Sequence[float] | Law, values: Indices | None = None, *, in_full: bool = False
    ) -> int:
        """Sample an outcome."""
        del in_full
        self.step()
        law = normalised(weights)
        sums = law.cumsum()  # as `Generator.choice` does, which takes three times as long
        outcome = int((sums / sums[-1]).searchsorted(self.rng.random(), "right"))
        self.log_chance += math.log(law[outcome])
        return outcome if values is None else int(values[outcome])


def random_leaf(function: Callable[[], T], rng: np.random.Generator, max_seconds: float) -> Leaf[T]:
    """Run ``function`` once, with sampled decisions, within ``max_seconds`` of processor time."""
    run = RandomRun([], Deadline(time.process_time() + max_seconds))
    run.rng = rng
    result = along(function, run)
    return Leaf(run.log_chance, result, run.makes_generators)  # type: ignore[arg-type]  # None is T's here
