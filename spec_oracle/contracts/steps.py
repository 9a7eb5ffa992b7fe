"""A decoding system as seen from outside: drafter, target, verifier, state and random streams in one.

An adapter to a real engine implements `System` and `Session`; everything that checks of whole systems know
about the code under test is below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.toy.instance import Instance


@dataclass(frozen=True)
class Step:
    """What one call did for B requests.

    ``draft_tokens`` int [B, L]; ``draft_probs`` [B, L, V], the laws the drafter says they were drawn from;
    ``tokens`` int [B, L+1], emitted, padded with -1 (all padding where the request had ended before);
    ``num_accepted`` int [B], as the system reports it, -1 where the request had ended.
    """

    draft_tokens: NDArray[np.int64]
    draft_probs: NDArray[np.float64]
    tokens: NDArray[np.int64]
    num_accepted: NDArray[np.int64]


class Session(Protocol):
    """Requests that are decoded together, from the empty context on."""

    def step(self) -> Step:
        """Draft and verify once for every request."""
        ...


class System(Protocol):
    """Everything that turns contexts into text.

    ``instance`` holds the law of plain decoding (temperature, filters and penalties included) and the law
    that the drafter is meant to have; ``rule`` names the built-in verifier whose accepted-length law the
    system declares, or None. Text ends after ``stop_token`` and at ``max_tokens`` tokens, where given.
    """

    @property
    def instance(self) -> Instance:
        """Plain decoding and the intended drafter."""
        ...

    @property
    def rule(self) -> str | None:
        """The declared rule."""
        ...

    @property
    def stop_token(self) -> int | None:
        """The token that ends a text."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """The number of tokens at which a text ends."""
        ...

    def start(self, seeds: Sequence[int | None]) -> Session:
        """Begin one request for each of ``seeds``; None stands for a request that sets no seed."""
        ...


SystemFactory: TypeAlias = Callable[[Instance, int], System]
"""(instance, entropy) -> system: one process that serves these models; ``entropy`` stands for the operating
system's randomness, from which requests without a seed must draw theirs."""
