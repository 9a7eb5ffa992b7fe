"""One run of foreign code along a script of random decisions, and the depth-first walk over all scripts.

A *decision* is a random variable with finitely many outcomes whose conditional law, given everything decided
before it, is known. A run follows its script, then takes the first possible outcome of each further decision.
The product of the conditional probabilities is the weight of the run; the runs that the walk visits are the
leaves of a probability tree, so their weights sum to one.

Trees may be endless, as that of ``while random() < p``: a run whose weight has fallen below `CUT` is cut off.
What was cut is missing in the sum of the weights, and is at most `MOST_CUT`. Trees may be too wide:
`spec_oracle.exact.representatives`.
"""

import math
import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.errors import (
    CannotTraceError,
    Deadline,
    Line,
    TooManyBranchesError,
    UnrepeatableError,
    here,
    shown,
)
from spec_oracle.exact.representatives import OPEN, Branch, Decision, Indices, Law, Stand, chosen, normalised

T = TypeVar("T")

CUT = 1e-16
"""Branches of smaller weight are cut off: whatever they lead to is not looked at."""

MOST_CUT = 1e-12
"""Most mass that may be cut off in all; beyond, the walk gives up."""

MOST_GUARDED: Final = 2e-5
"""Most probability of what guards of noise against zeros change, and of branches with them, in one run."""

_RARE: Final = 1e-8
"""Branches of smaller weight are left out where they cannot be traced."""

_LOOK: Final = 100
_FAR: Final = 10
"""After so many leaves it is seen whether there will be that many times as many as are allowed."""

_MOST_STEPS = 100_000
"""Most draws and comparisons of one run."""

_WEIGHT_TOLERANCE = 1e-9


class RunOverError(BaseException):
    """Ends a run that was cut off, or that goes on after a failure; foreign code must not catch it."""


class Boxed(dict[int, Any]):
    """Symbols by the number in their box. Those of a whole array may be made when one is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Sequence[int], Sequence[Any]]] = []
        """Numbers, and the symbols that lie there."""
        self.size = 0
        """How many symbols there are, with those that are not made yet."""

    def enter(self, handles: Sequence[int], symbols: Sequence[Any], *, later: bool) -> None:
        """Enter symbols by their numbers; ``later``: when one of them is looked at."""
        self.size += len(symbols)
        if later:
            self.waiting.append((handles, symbols))
        else:
            self.update(zip(handles, symbols, strict=True))

    def __missing__(self, handle: int) -> Any:
        """Return a symbol that waits, and enter all of its array; raises KeyError where none does."""
        for place, (handles, symbols) in enumerate(self.waiting):
            if handle in handles:
                del self.waiting[place]
                self.update(zip(handles, symbols, strict=True))
                return self[handle]
        raise KeyError(handle)


@dataclass(eq=False)
class Run:
    """One run: its decisions so far, and the state of its random numbers.

    With ``looked_at``, not every outcome of every decision is run: see `representatives`. ``leave_open``
    allows for one open token. The first decisions of the script, as many as ``given``, are what the
    probability of the run is conditional on.
    """

    script: Sequence[Decision]
    deadline: Deadline = field(default_factory=Deadline)
    looked_at: Collection[int] | None = None
    leave_open: bool = False
    given: int = 0
    has_returned = False
    """True once the foreign code has returned: later decisions cannot influence it."""
    open: Stand | None = None
    """The token that is not decided."""
    must_decide = False
    """Whether another token would have to be left open, too."""
    steps = 0
    """How many draws and comparisons there were."""
    decisions: list[Decision] = field(default_factory=list)
    standing: list[int] = field(default_factory=list)
    """The values of those decisions whose outcome represents others."""
    weight = 1.0
    """Probability of the decisions taken so far, beyond those that are given."""
    is_cut = is_over = False
    failure: SpecOracleError | None = None
    boxed: Boxed = field(default_factory=Boxed)
    """Symbols that lie in tensors, by the number in the element."""
    shown: dict[int, object] = field(default_factory=dict)
    """Tensors whose memory others know, by its address."""
    races: dict[object, Any] = field(default_factory=dict)
    """The races between equal draws and numbers, so that the same race run twice has one winner."""
    draws = 0
    """Number of draws that are decided when they are first used."""
    deciding: int | None = None
    """The number of the draw that is being decided."""
    tapes: dict[object, Any] = field(default_factory=dict)
    """The tape of each position in a stream of random numbers: see `sources`."""
    tape: Any = None
    """The tape that is being read or written."""
    line: Line | None = None
    """The line of the foreign code that made what is being decided; None for the one that is running."""
    guarded = 0.0
    """The probability of what guards of noise change, which is left out."""
    seeds: dict[object, int] = field(default_factory=dict)
    """Seeds that stand for random numbers without a value."""
    untouched: dict[object, object] = field(default_factory=dict)
    """Generators that draw as always: see `own_seeds`."""

    def step(self, count: int = 1) -> None:
        """Count a draw or a comparison; ends the run if it is over, or takes too many steps or too long."""
        self.steps += count
        if self.steps > _MOST_STEPS:
            self._failed(TooManyBranchesError(f"more than {_MOST_STEPS} random numbers used in one run"))
        elif self.deadline.is_over():
            self._failed(TooManyBranchesError("not all outcomes could be run in time (max_seconds)"))
        self._require_going()

    def _require_going(self) -> None:
        if self.is_over or self.failure is not None:
            raise RunOverError

    def decide(
        self, weights: Sequence[float] | Law, values: Indices | None = None, *, in_full: bool = False
    ) -> int:
        """Return an outcome, index i having probability weights[i] / sum(weights) given the past.

        With ``values``, the outcome's value; ``in_full`` if none stands for others, unless it is `OPEN`.
        Raises `UnrepeatableError` when the script was written for a decision with another law.
        """
        self.step()
        law = normalised(weights)
        if np.count_nonzero(law) == 1:
            only = int(law.argmax())
            return only if values is None else int(values[only])
        number = len(self.decisions)
        if number >= len(self.script) and self.has_returned and self.leave_open:
            return self._left_open(Stand(OPEN, np.arange(len(law)) if values is None else values, law))
        looked_at = None if in_full else self.looked_at
        tried, alike = chosen(law, looked_at, values=values, taken=self.standing)
        decision = Decision(law, tried, alike, int(tried[0]), values, self.deciding)
        if number < len(self.script):
            decision = decision._replace(outcome=self.script[number].outcome)
            if not decision.is_as(self.script[number]):
                self.unrepeatable("probabilities changed between runs with equal random numbers")
        self.decisions.append(decision)
        if decision.stands:
            self.standing.append(decision.value)
        self.weight *= decision.chance if number >= self.given else 1.0
        if self.weight < CUT:
            self.is_cut = self.is_over = True
            raise RunOverError
        return decision.value

    def later(self, choose: Callable[[], int]) -> tuple[Callable[[], int], bool]:
        """Return ``choose`` as what decides another draw, and whether it is the next decision of the script.

        If so, it may as well be decided at once: nothing else is before.
        """
        number, self.draws = self.draws, self.draws + 1

        def decided() -> int:
            before, self.deciding = self.deciding, number
            try:
                return choose()
            finally:
                self.deciding = before

        if (place := len(self.decisions)) >= len(self.script):
            return decided, False
        return decided, self.script[place].drawn == number

    def _left_open(self, stand: Stand) -> int:
        """Leave a token open; where there is one already the run must be begun anew, and decide."""
        if self.open is not None:
            self.must_decide = self.is_over = True
            raise RunOverError
        self.open = stand
        return OPEN

    def branch(self, result: T) -> Branch[T]:
        """Return the leaf at which this run ended."""
        stands = (*(decision.stand for decision in self.decisions), self.open)
        before = tuple(decision.outcome for decision in self.decisions)
        alike = (
            (before[:number], decision.value)
            for number, decision in enumerate(self.decisions)
            if decision.outcome in decision.alike
        )
        stands_for = tuple(stand for stand in stands if stand is not None)
        script = tuple(self.decisions)
        return Branch(self.weight, result, stands_for, tuple(alike), script, self.guarded)

    def cannot_trace(self, operation: str, reason: str) -> NoReturn:
        """Raise `CannotTraceError`; the run stays failed even if the foreign code swallows the exception."""
        self._require_going()
        line, frame = here()
        error = CannotTraceError(operation, reason, shown(self.line or line))
        error.frame = frame
        raise self._failed(error)

    def leave_out(self, probability: float) -> None:
        """Leave out a guard that changes noise so often; raises `CannotTraceError` above a limit."""
        self.guarded += probability
        if self.guarded > MOST_GUARDED:
            self.cannot_trace("guard", f"guards of noise change the distribution by up to {self.guarded:.1g}")

    def unrepeatable(self, reason: str) -> NoReturn:
        """Raise `UnrepeatableError`; the run stays failed."""
        at = shown(self.line or here()[0])
        raise self._failed(UnrepeatableError(f"{reason}{f', at {at}' * bool(at)}"))

    def _failed(self, error: SpecOracleError) -> SpecOracleError:
        self.failure = self.failure or error
        return error


active_run: ContextVar[Run | None] = ContextVar("active run", default=None)


class OwnRandom(random.Random):
    """A generator of ours: it draws as always while the methods of `random.Random` are traced."""

    getrandbits = random.Random.getrandbits
    random = random.Random.random


_random: Final = OwnRandom(0)


class Afterwards(Run):
    """The run of symbols that foreign code keeps beyond their own run: their values are sampled."""

    def step(self, count: int = 1) -> None:
        """Count nothing."""

    def decide(
        self, weights: Sequence[float] | Law, values: Indices | None = None, *, in_full: bool = False
    ) -> int:
        """Draw an outcome."""
        del in_full
        self.step()
        (outcome,) = _random.choices(range(len(weights)), normalised(weights).tolist())
        return outcome if values is None else int(values[outcome])

    def between(self, low: float, high: float) -> float:
        """Draw a number."""
        self.step()
        return _random.uniform(low, high)

    def cannot_trace(self, operation: str, reason: str) -> NoReturn:
        """Raise TypeError: it is an error of the foreign code now."""
        raise TypeError(f"{operation}: {reason}")


class Guest(Afterwards):
    """The run of threads other than that of the run in progress, their ``host``, which they make fail.

    Such a thread may outlive the run: its numbers are sampled.
    """

    def __init__(self, host: Run) -> None:
        super().__init__([])
        self._host = host
        self.races, self.boxed = host.races, host.boxed

    def step(self, count: int = 1) -> None:  # noqa: ARG002
        """Let the run fail."""
        with suppress(RunOverError, SpecOracleError):
            self._host.cannot_trace("thread", "another thread than that of the call uses random numbers")

    def cannot_trace(self, operation: str, reason: str) -> NoReturn:
        """Raise TypeError, and let the run fail."""
        self.step()
        super().cannot_trace(operation, reason)


_AFTERWARDS = Afterwards([])
_guests: list[Guest] = []
"""For the run in progress, if there is one."""


def current_run() -> Run:
    """Return the run in progress, or the one that samples symbols left over from earlier runs."""
    return active_run.get() or (_guests[-1] if _guests else _AFTERWARDS)


def is_traced() -> bool:
    """Whether a run is in progress, in this thread or in another one."""
    return bool(_guests)


def along(function: Callable[[], T], run: Run) -> T | None:
    """Return what the foreign code returns along the script of ``run``, None where it is cut off.

    What the code raises goes through, unless it only passes on a failure of ours.
    """
    if active_run.get() is not None:
        raise SpecOracleError("enumerate_calls cannot be nested")
    token = active_run.set(run)
    _guests.append(Guest(run))
    result: T | None = None
    cause: BaseException | None = None
    try:
        result = function()
    except RunOverError as error:
        cause = error
    except Exception as error:
        if run.failure is None and not run.is_cut:
            raise
        cause = error
    finally:
        run.is_over = True
        _guests.pop()
        active_run.reset(token)
    if run.failure is not None:
        raise run.failure from (cause if cause is not run.failure else None)
    return result


def walk(
    function: Callable[[], T],
    max_branches: int,
    max_seconds: float = math.inf,
    looked_at: Collection[int] | None = None,
    *,
    leave_open: bool = False,
    given: Sequence[Decision] = (),
) -> list[Branch[T]]:
    """Run ``function`` once per leaf of its decision tree; see `calls.enumerate_calls`.

    Raises `TooManyBranchesError` as soon as there will be far more leaves than ``max_branches``, too, and
    `UnrepeatableError` when equal decisions do not lead to equal ones or the weights do not sum to one.
    """
    branches: list[Branch[T]] = []
    cut: list[float] = []
    left_out = 0.0
    deadline = Deadline(time.process_time() + max_seconds)
    script: list[Decision] | None = [*given]
    while script is not None:
        if len(branches) + len(cut) == max_branches:
            raise TooManyBranchesError(f"more than {max_branches} branches (max_branches)")
        run = Run(script, deadline, looked_at, leave_open=leave_open, given=len(given))
        try:
            result = along(function, run)
            if run.must_decide:
                run = Run(script, deadline, looked_at, given=len(given))
                result = along(function, run)
        except CannotTraceError:
            if run.weight > _RARE or left_out + run.weight > MOST_GUARDED:
                raise
            left_out += run.weight
        if len(run.decisions) < len(script):
            made = f"{len(script)} and {len(run.decisions)} random decisions"
            raise UnrepeatableError(f"runs with equal random numbers made {made}")
        if run.is_cut:
            cut.append(run.weight)
        elif run.failure is None:
            branches.append(run.branch(result))  # type: ignore[arg-type]  # None is T's here
        if len(branches) == _LOOK and _FAR * max_branches * _share_done(run.decisions[len(given) :]) < _LOOK:
            raise TooManyBranchesError(f"far more than {max_branches} branches (max_branches)")
        script = _next_script(run.decisions, len(given))
    lost = math.fsum(cut)
    if lost > MOST_CUT:
        raise TooManyBranchesError(f"outcomes of probability below {CUT} sum to {lost}, more than {MOST_CUT}")
    total = math.fsum(branch.weight for branch in branches)
    if abs(total + lost + left_out - 1) > _WEIGHT_TOLERANCE:
        raise UnrepeatableError(f"the probabilities of all outcomes sum to {total + lost!r}, not to one")
    return [branch._replace(guarded=branch.guarded + left_out) for branch in branches]


def _share_done(decisions: list[Decision]) -> float:
    """Return the share of the tree up to a leaf, if all outcomes of a decision lead to equally many."""
    share, done = 1.0, 0.0
    for decision in decisions:
        share /= len(decision.tried)
        done += share * int((decision.tried < decision.outcome).sum())
    return done + share


def _next_script(decisions: list[Decision], given: int) -> list[Decision] | None:
    """Return the script of the next leaf in depth-first order, or None after the last."""
    for depth in range(len(decisions) - 1, given - 1, -1):
        following = decisions[depth].following()
        if following is not None:
            return [*decisions[:depth], following]
    return None
