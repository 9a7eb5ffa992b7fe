"""Experiments: something to run, and the expected distribution of its outcomes; what was traced and sampled.

A check of any kind lists experiments; kinds differ in how they make them, and in nothing else.
`spec_oracle.audit.find` decides them, with as much `Effort` as the check states.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.declared import ROUNDING
from spec_oracle.audit.effort import ENGINE_RUNS
from spec_oracle.audit.results import NoEvidenceError, WrongCompletion
from spec_oracle.exact import Gap
from spec_oracle.exact.completions import completion_gap, distance

LEAST_RUNS: Final = 300  # Runs that an experiment may always take: the pace of the first ones says little.
# Times the budget, in processor time, at which no run of a traced experiment goes on.
OVERRUN: Final = 2.0

_CERTAIN: Final = 1 - 1e-9


Outcomes: TypeAlias = Sequence[Any] | Integers
"""Of runs of an experiment: anything that can be compared, or numbers from 0 on."""


@dataclass(frozen=True)
class OutcomeCells:
    """Cells in which outcomes are counted: their probabilities ``law`` [C].

    ``of`` returns the cells of outcomes, int [N]; ``outcomes`` are those of the first cells, None for a cell
    of several. Laws within a factor of exp(+-``slack``), [C] or a number, count as right.
    """

    law: Floats
    of: Callable[..., Integers]
    outcomes: Sequence[Any] = ()
    slack: Floats | float = 0.0


def listed(law: Mapping[Any, float]) -> OutcomeCells:
    """Return a cell for every outcome of a distribution, and a last one for all others."""
    number = {outcome: place for place, outcome in enumerate(law)}
    masses = np.array([*law.values(), 0.0])
    cell_of = lambda outcomes: np.array([number.get(one, len(number)) for one in outcomes], np.int64)  # noqa: E731
    return OutcomeCells(masses / masses.sum(), cell_of, tuple(law))


def indexed(law: Floats) -> OutcomeCells:
    """Return a cell for every outcome, where outcomes are numbers from 0 on."""
    return OutcomeCells(law, lambda found: np.asarray(found, np.int64), range(len(law)))


@dataclass(frozen=True)
class TracedOutcome:
    """The exact distribution of an outcome, traced in ``runs`` runs; whether a random decision was seen.

    ``remark`` is what else was seen of the code, for the sentence that names a defect. ``many`` runs what was
    traced ordinarily, where that is not the experiment as it is. ``guarded``: see `_of_guards`.
    ``total_variation`` is what a criterion found, where outcomes are too many to list; ``law`` may be left
    out then, where that is right. ``assumed`` is the probability of tokens that others represent.
    """

    law: Mapping[Any, float]
    runs: int = 0
    is_decided: bool = True
    remark: str = ""
    many: Callable[[int], Outcomes] | None = None
    guarded: float = 0.0
    total_variation: float | None = None
    assumed: float = 0.0


@dataclass(frozen=True)
class Experiment:
    """Something to run, ``what`` in words, and the distribution that must come out.

    ``size`` says how much an outcome holds, such as "2 tokens"; ``expect`` returns the probabilities of
    outcomes, exact. ``many`` runs the code ordinarily, so many times, and returns the outcomes. ``trace``,
    for code that can be traced, takes the most runs and an end in seconds of `time.process_time`. ``binned``
    returns the cells in which samples are counted, where outcomes are too many to list.

    A total variation up to ``allowed`` is rounding, one up to ``doubtful`` may be. What cannot be traced is
    sampled together with all of its ``group``. ``decides``: whether the G test decides it, or other
    experiments show the same. ``tokens`` are those of its longest completion. ``is_conditional``: it was
    traced given random decisions that no outcome shows, so that only samples can call it wrong. ``many`` then
    returns only the outcomes of those runs that have one.
    """

    what: str
    size: str
    expect: Callable[[], Mapping[Any, float]]
    many: Callable[[int], Outcomes]
    trace: Callable[[int, float], TracedOutcome] | None = None
    binned: Callable[[], OutcomeCells] | None = None
    allowed: float = ROUNDING
    doubtful: float = 0.0
    group: str = ""
    decides: bool = True
    shown: Callable[[Any], str] = str
    tokens: int = 0
    wrong_completion: Callable[[Gap, float], WrongCompletion] | None = None
    is_conditional: bool = False

    @cached_property
    def expected(self) -> Mapping[Any, float]:
        """The probabilities of outcomes."""
        return self.expect()

    def traced(self, most_runs: int, end: float) -> TracedOutcome:
        """Trace it, within so many runs and up to an end; raises `NoEvidenceError` if it cannot be traced."""
        if self.trace is None:
            raise NoEvidenceError("")
        return self.trace(most_runs, end)

    @cached_property
    def cells(self) -> OutcomeCells:
        """The cells in which samples are counted."""
        return listed(self.expected) if self.binned is None else self.binned()


def numbered(what: str, size: str, law: Floats, many: Callable[[int], Integers], **more: Any) -> Experiment:
    """Return an experiment whose outcomes are numbers from 0 on, of the probabilities ``law`` [C].

    ``more`` are other fields of it.
    """
    expect = lambda: dict(enumerate(law.tolist()))  # noqa: E731
    return Experiment(what, size, expect, many, **{"binned": partial(indexed, law), **more})


@dataclass
class Sample:
    """Outcomes of ordinary runs of an experiment, counted in cells; ``seconds`` of the code under test.

    ``law`` [C] are the probabilities of the cells, ``slack`` is by how much a right law may differ, nats.
    """

    experiment: Experiment
    cells: OutcomeCells
    law: Floats = field(init=False)
    slack: Floats | float = field(init=False)
    counts: Integers = field(init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.law, self.slack = self.cells.law, self.cells.slack
        self.counts = np.zeros(len(self.law), dtype=np.int64)

    def draw(self, count: int) -> None:
        """Run the experiment ``count`` times more; it may return fewer outcomes."""
        started = time.monotonic()
        outcomes = self.experiment.many(count)
        self.counts += np.bincount(self.cells.of(outcomes), minlength=len(self.counts))
        self.seconds += time.monotonic() - started

    def afresh(self) -> "Sample":
        """Return an empty sample of the same experiment."""
        return replace(self)

    @property
    def gap(self) -> tuple[Gap, float] | None:
        """The outcome with the largest gap and the total variation, as sampled; None without outcomes."""
        named = [cell for cell, one in enumerate(self.cells.outcomes) if one is not None]
        if not named or not self.counts.any():
            return None
        seen = self.counts / self.counts.sum()
        worst = max(named, key=lambda cell: abs(seen[cell] - self.law[cell]))
        gap = Gap(self.cells.outcomes[worst], float(self.law[worst]), float(seen[worst]))
        return gap, float(abs(seen - self.law).sum() / 2)


@dataclass(frozen=True)
class Effort:
    """How much is sampled: ``tv`` must be detected, ``wanted`` is planned for where the budget allows it.

    An infinite ``tv`` is that of samples in addition to others, of which as many are taken as there is time;
    where none is ``wanted`` either, the screening alone decides, after a fixed number of samples.
    ``look`` samples come between two looks of the screening, which looks ``turns`` times beyond the first
    look at every experiment; ``most`` come in one call, ``pilot`` in the first one, which measures the pace.
    ``share`` of the budget is for samples. Those that confirm what was traced as right should detect a total
    variation of ``confirming``, within ``confirming_share`` of the budget. ``at_once``: whether many runs are
    one call. Samples that confirm are of calls of ``look`` then, of one experiment of up to ``most``, since
    large calls may cost more a sample; where these contradict, of one call: calls may depend on each other.
    ``screens_all``: whether experiments that do not decide are sampled, too; ``goes_on``: whether tracing
    goes on once a defect is found. ``keeps``: whether the G test judges the samples of the screening, too; of
    one experiment, whose outcomes do not decide how often it is run.
    """

    tv: float
    look: int
    wanted: float = 0.0
    turns: int = 8
    most: int = 10_000
    share: float = 1.0
    pilot: int = 16
    confirming: float = 0.1
    confirming_share: float = 0.1
    screens_all: bool = True
    goes_on: bool = False
    at_once: bool = False
    keeps: bool = False


@dataclass(frozen=True)
class TracedExperiment:
    """An experiment, its traced outcome, and the seconds that tracing took."""

    experiment: Experiment
    traced: TracedOutcome
    seconds: float = 0.0

    @cached_property
    def total_variation(self) -> float:
        """The total variation from the expected distribution."""
        found = self.traced.total_variation
        return distance(self.traced.law, self.experiment.expected) if found is None else found

    def require_decision(self) -> None:
        """Raise `NoDecisionError` if no random decision was seen, though the target leaves a choice."""
        if not self.traced.is_decided:
            require_certain(self.experiment.expected)

    @property
    def is_right(self) -> bool:
        """Whether rounding explains the distance."""
        return self.total_variation <= self.experiment.allowed

    @property
    def is_wrong(self) -> bool:
        """Whether rounding cannot explain it."""
        return self.total_variation > max(self.experiment.allowed, self.experiment.doubtful)

    @property
    def gap(self) -> Gap:
        """The outcome with the largest gap."""
        return completion_gap(self.traced.law, self.experiment.expected)


@dataclass
class Ledger:
    """Traced experiments so far, within ``budget`` seconds; ``a_run`` is the time of a run, 0 if unknown.

    An experiment may always take some runs, however slow they are, but none goes on for `OVERRUN` times the
    budget. ``samples`` are those that decided, where samples did. ``due`` is where the budget ends, by
    `time.process_time`.
    """

    budget: float
    a_run: float = 0.0
    found: list[TracedExperiment] = field(default_factory=list, init=False)
    seconds: float = field(default=0.0, init=False)
    runs: int = field(default=0, init=False)
    untraced: dict[str, str] = field(default_factory=dict, init=False)
    samples: dict[str, Sample] = field(default_factory=dict, init=False)
    due: float = field(init=False)

    def __post_init__(self) -> None:
        self.due = time.process_time() + self.budget

    def trace(self, experiment: Experiment) -> None:
        """Trace an experiment and keep it; raises `NoEvidenceError` if it cannot be traced in time."""
        left = (self.budget - self.seconds) / self.a_run if self.a_run else math.inf
        started = time.perf_counter()
        most = int(min(max(left, LEAST_RUNS), ENGINE_RUNS))
        traced = experiment.traced(most, self.due + (OVERRUN - 1) * self.budget)
        took = time.perf_counter() - started
        self.seconds += took
        self.runs += traced.runs
        if traced.runs:  # other work on the machine makes runs longer, never shorter
            self.a_run = min(self.a_run or math.inf, took / traced.runs)
        found = TracedExperiment(experiment, traced, took)
        found.require_decision()
        self.found.append(found)

    @property
    def worst(self) -> TracedExperiment:
        """The experiment whose total variation exceeds the allowed one by the largest factor."""
        return max(self.found, key=lambda one: one.total_variation / max(one.experiment.allowed, 1e-300))


class NoDecisionError(NoEvidenceError):
    """No random decision was seen, though the target leaves a choice."""


def require_certain(expected: Mapping[Any, float]) -> None:
    """Raise `NoDecisionError` unless the expected outcome is certain: no random decision was seen."""
    if max(expected.values()) < _CERTAIN:
        raise NoDecisionError(
            "could not trace the random numbers: no random decision was seen, and the target leaves a "
            "choice; sampled instead"
        )
