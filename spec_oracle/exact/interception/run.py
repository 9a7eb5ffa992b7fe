"""One run of the foreign code along a script of decisions, and the depth-first walk over all scripts.

A *decision* is a random variable with finitely many outcomes whose conditional law, given everything decided
before it, is known. A run follows its script, then takes the first possible outcome of each further decision.
The product of the conditional probabilities is the weight of the run; the runs that the walk visits are the
leaves of a probability tree, so their weights sum to one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.interception.errors import (
    CannotFollowError,
    TooManyBranchesError,
    UnrepeatableError,
    foreign_location,
)

T = TypeVar("T")

NEGLIGIBLE = 1e-14
"""Outcomes of smaller conditional probability are taken for rounding of float64 thresholds and left out; each
one moves the law by at most this much."""

_WEIGHT_TOLERANCE = 1e-9


class Decision(NamedTuple):
    """The conditional law of one decision and the index of the outcome taken."""

    probabilities: tuple[float, ...]
    outcome: int


class Branch(NamedTuple, Generic[T]):
    """A leaf: its probability and what the foreign code returned there."""

    weight: float
    result: T


class Run:
    """The decisions of one run, and what its random numbers have come to."""

    def __init__(self, script: Sequence[Decision]) -> None:
        self._script = script
        self.decisions: list[Decision] = []
        self.boxed: dict[int, Any] = {}
        """Symbols that lie in tensors, by the number that the tensor element holds."""
        self.races: dict[Any, Any] = {}
        """The outcome of each race, so that the same race run twice has one winner."""
        self.failure: SpecOracleError | None = None

    @property
    def weight(self) -> float:
        """Probability of the decisions taken so far."""
        return math.prod(decision.probabilities[decision.outcome] for decision in self.decisions)

    def decide(self, weights: Sequence[float]) -> int:
        """Return an outcome, index i having probability weights[i] / sum(weights) given the past.

        Raises `UnrepeatableError` when the script was written for a decision with another law.
        """
        probabilities = _normalised(weights)
        possible = [index for index, probability in enumerate(probabilities) if probability > 0]
        if len(possible) == 1:
            return possible[0]
        outcome = possible[0]
        if len(self.decisions) < len(self._script):
            expected = self._script[len(self.decisions)]
            if expected.probabilities != probabilities:
                self.unrepeatable("a decision changed its law between two runs")
            outcome = expected.outcome
        self.decisions.append(Decision(probabilities, outcome))
        return outcome

    def cannot_follow(self, operation: str, reason: str) -> NoReturn:
        """Raise `CannotFollowError`; the run stays failed even if the foreign code swallows the exception."""
        raise self._failed(CannotFollowError(operation, reason, foreign_location()))

    def unrepeatable(self, reason: str) -> NoReturn:
        """Raise `UnrepeatableError`; the run stays failed."""
        raise self._failed(UnrepeatableError(f"{reason}, at {foreign_location()}"))

    def _failed(self, error: SpecOracleError) -> SpecOracleError:
        self.failure = self.failure or error
        return error


def _normalised(weights: Sequence[float]) -> tuple[float, ...]:
    total = math.fsum(weights)
    kept = [weight if weight >= NEGLIGIBLE * total else 0.0 for weight in weights]
    total = math.fsum(kept)
    return tuple(weight / total for weight in kept)


_active: ContextVar[Run | None] = ContextVar("active run", default=None)


def current_run() -> Run:
    """Return the run in progress; raises `SpecOracleError` outside `enumerate_calls`."""
    run = _active.get()
    if run is None:
        raise SpecOracleError("enumerated randomness was used outside enumerate_calls")
    return run


@contextmanager
def _activated(run: Run) -> Iterator[None]:
    if _active.get() is not None:
        raise SpecOracleError("enumerate_calls cannot be nested")
    token = _active.set(run)
    try:
        yield
    finally:
        _active.reset(token)


def walk(function: Callable[[], T], max_branches: int) -> list[Branch[T]]:
    """Run ``function`` once per leaf of its decision tree.

    Raises `TooManyBranchesError` above ``max_branches`` leaves, `UnrepeatableError` when equal decisions do
    not lead to equal decisions or the weights do not sum to one.
    """
    branches: list[Branch[T]] = []
    script: list[Decision] | None = []
    while script is not None:
        if len(branches) == max_branches:
            raise TooManyBranchesError(f"more than {max_branches} branches")
        run = Run(script)
        with _activated(run):
            result = function()
        if run.failure is not None:
            raise run.failure
        if len(run.decisions) < len(script):
            raise UnrepeatableError(f"a run ended after {len(run.decisions)} of {len(script)} decisions")
        branches.append(Branch(run.weight, result))
        script = _next_script(run.decisions)
    total = math.fsum(branch.weight for branch in branches)
    if abs(total - 1) > _WEIGHT_TOLERANCE:
        raise UnrepeatableError(f"the weights of all branches sum to {total!r}, not to one")
    return branches


def _next_script(decisions: list[Decision]) -> list[Decision] | None:
    """Return the script of the next leaf in depth-first order, or None after the last."""
    for depth in range(len(decisions) - 1, -1, -1):
        probabilities, outcome = decisions[depth]
        for later in range(outcome + 1, len(probabilities)):
            if probabilities[later] > 0:
                return [*decisions[:depth], Decision(probabilities, later)]
    return None
