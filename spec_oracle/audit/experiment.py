"""Experiments: something to run, and the expected distribution of its outcomes. `find` decides them.

A check of any kind lists experiments; kinds differ in how they make them, and in nothing else. `find` traces
the outcomes of an experiment if it can: every random decision is run, and uninstrumented samples confirm the
result. Else samples decide: an e-process screens, then a G test. A traced defect is reported only after
samples have confirmed it at its own size. See docs/how-it-works/decisions.md. Those of the check `shapes`
stand each alone, and are traced by `spec_oracle.audit.shapes.tried`.

A die that is called fair, and shows a six more often than it should:

>>> rng = np.random.default_rng(0)
>>> law = {face: 1 / 6 for face in range(1, 7)}
>>> throw = lambda count: rng.choice([1, 2, 3, 4, 5, 6, 6], size=count).tolist()
>>> die = Experiment("a die", "one throw", lambda: law, throw)
>>> find([die], Context(rate=1e-6, budget=5.0), Effort(tv=0.05, look=500)).status.value
'failed'
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from spec_oracle import clock
from spec_oracle.audit import effort as shares
from spec_oracle.audit.confirm import borne_out, confirm, describe, draws_needed, require_repeated
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import ROUNDING
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    Findings,
    How,
    LawResult,
    Measured,
    NoEvidenceError,
    Remarks,
    Shown,
    Status,
    WrongCompletion,
    breach,
    inconclusive,
    with_findings,
)
from spec_oracle.audit.sampling import (
    Effort,
    OutcomeCells,
    Sample,
    calls_within,
    decide,
    draw_within,
    indexed,
    listed,
)
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import Gap
from spec_oracle.exact.completions import completion_gap, distance
from spec_oracle.statistics import (
    draws_needed_by_joint_e_process,
    split,
    total_variation_at_least,
)

LEAST_RUNS: Final = 300  # Runs that an experiment may always take: the pace of the first ones says little.
# Times the budget, in processor time, at which no run of a traced experiment goes on.
OVERRUN: Final = 2.0

_CERTAIN: Final = 1 - 1e-9
_SAME: Final = 1e-9


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
    many: Callable[[int], Sequence[Any]] | None = None
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
    many: Callable[[int], Sequence[Any]]
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

    @cached_property
    def cells(self) -> OutcomeCells:
        """The cells in which samples are counted."""
        return listed(self.expected) if self.binned is None else self.binned()


def numbered(
    what: str, size: str, law: NDArray[np.float64], many: Callable[[int], NDArray[np.int64]], **more: Any
) -> Experiment:
    """Return an experiment whose outcomes are numbers from 0 on, of the probabilities ``law`` [C].

    ``more`` are other fields of it.
    """
    expect = lambda: dict(enumerate(law.tolist()))  # noqa: E731
    some = cast(Callable[[int], Sequence[Any]], many)
    return Experiment(what, size, expect, some, **{"binned": partial(indexed, law), **more})


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

    @property
    def excess(self) -> float:
        """The total variation over the allowed one."""
        return self.total_variation / max(self.experiment.allowed, 1e-300)

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
    most_runs: int = shares.ENGINE_RUNS
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
        if experiment.trace is None:
            raise NoEvidenceError("")
        left = (self.budget - self.seconds) / self.a_run if self.a_run else math.inf
        started = clock.now()
        most = int(min(max(left, LEAST_RUNS), self.most_runs))
        traced = experiment.trace(most, self.due + (OVERRUN - 1) * self.budget)
        took = clock.now() - started
        self.seconds += took
        self.runs += traced.runs
        if traced.runs:  # other work on the machine makes runs longer, never shorter
            self.a_run = min(self.a_run or math.inf, took / traced.runs)
        if not traced.is_decided:
            require_certain(experiment.expected)
        self.found.append(TracedExperiment(experiment, traced, took))

    @property
    def worst(self) -> TracedExperiment:
        """The experiment with the largest `excess`."""
        return max(self.found, key=lambda one: one.excess)


class NoDecisionError(NoEvidenceError):
    """No random decision was seen, though the target leaves a choice."""


def require_certain(expected: Mapping[Any, float]) -> None:
    """Raise `NoDecisionError` unless the expected outcome is certain: no random decision was seen."""
    if max(expected.values()) < _CERTAIN:
        raise NoDecisionError(
            "could not trace the random numbers: no random decision was seen, and the target leaves a "
            "choice; sampled instead"
        )


Listing: TypeAlias = Callable[[Ledger], Iterable[Experiment]]
"""Yields experiments; it may look at the traces of those before."""

Broken: TypeAlias = tuple[Experiment, ContractError]
"""An experiment that broke the contract, and the error."""

Judge: TypeAlias = Callable[[Ledger, Broken | None], LawResult]
"""Judges traced experiments, up to one that broke the contract."""


class UndecidedError(SpecOracleError):
    """Samples are too few to say whether a traced deviation is a defect; the message says how few."""


def run_guarded(part: Callable[[], CheckResult]) -> CheckResult:
    """Run a check or a part of one; a broken contract fails it, an exception of the code leaves it open."""
    try:
        return part()
    except ContractError as error:
        return breach(error, how=How.SAMPLED)
    except SubjectRaisedError as error:
        return inconclusive(str(error))


def first_failure(alpha: float, *parts: Callable[[float], CheckResult]) -> CheckResult:
    """Run the parts of a check, each with its part of ``alpha``, up to the first that fails.

    What one part leaves open does not hide the others. Draws add up. The result is the first failure, else
    the first part that saw a deviation and left it undecided, else the first that is open, else the last one.
    """
    results: list[CheckResult] = []
    rate = split(alpha, len(parts))
    for part in parts:
        results.append(run_guarded(partial(part, rate)))
        if results[-1].status is Status.FAILED:
            break
    order = (Status.FAILED, Status.INCONCLUSIVE, Status.NOT_RUN)
    results.sort(key=lambda result: result.cause is not Cause.UNDECIDED)
    chosen = next((r for status in order for r in results if r.status is status), results[-1])
    draws = sum(result.measured.draws for result in results)
    return replace(chosen, measured=replace(chosen.measured, draws=draws))


def first_that_works(ways: Sequence[Callable[[], CheckResult]]) -> CheckResult:
    """Try the ways to answer a check in order, best first; notes say why those before did not work."""
    notes: list[str] = []
    for way in ways:
        try:
            found = run_guarded(way)
            remarks = replace(found.remarks, notes=(*notes, *found.remarks.notes))
            return replace(found, remarks=remarks)
        except NoEvidenceError as error:
            notes.append(str(error))
    return inconclusive("; ".join(notes))


class FoundBy(Enum):
    """How `find` may decide: by tracing, by samples, or by both."""

    BOTH = "both"
    TRACED = "traced only"
    SAMPLED = "sampled only"


def find(
    experiments: Listing | Sequence[Experiment],
    context: Context,
    effort: Effort,
    *,
    instead: Sequence[Experiment] = (),
    rest: Effort | None = None,
    ledger: Ledger | None = None,
    judge: Judge | None = None,
    doubt: str = "",
    ways: FoundBy = FoundBy.BOTH,
) -> LawResult:
    """Say whether the outcomes of experiments have the expected distributions: traced if they can be.

    Where they cannot be traced, they are sampled, or others ``instead``; ``rest`` says how much is sampled of
    groups that cannot be traced where others can. ``ledger`` keeps what is found for the caller. ``judge``
    judges what was traced, if not all of it alike; ``doubt`` says why a deviation that may be rounding is
    left open.
    """
    known = Ledger(context.budget) if ledger is None else ledger
    listing: Listing = experiments if callable(experiments) else lambda _: experiments
    of_samples = context if ways is FoundBy.SAMPLED else context.after_claims()

    def trace_all() -> LawResult:
        result = _traced(listing, known, context, effort, judge or partial(_judged, doubt=doubt))
        if result.status is not Status.PASSED or not known.untraced:
            return result
        left = [one for one in listing(known) if one.group in known.untraced]
        by_samples = sampled(left, of_samples, rest or effort, known)
        return _with_samples(result, by_samples, known.untraced, in_addition=rest is not None)

    def sample_all() -> LawResult:
        known.found.clear()  # samples may have contradicted it
        listed_anew = [*instead] or [*listing(Ledger(context.budget))]
        return sampled(listed_anew, of_samples, effort, known)

    both = {FoundBy.TRACED: [trace_all], FoundBy.SAMPLED: [sample_all]}.get(ways, [trace_all, sample_all])
    found = first_that_works(both)
    return found if isinstance(found, LawResult) else with_findings(found, Findings())


def _traced(
    experiments: Listing, ledger: Ledger, context: Context, effort: Effort, judge: Judge
) -> LawResult:
    """Trace experiments until one is wrong; confirm the result with uninstrumented samples.

    Raises `NoEvidenceError` where the first one cannot be traced, and where samples contradict one.
    """
    try:
        for experiment in experiments(ledger):
            if experiment.group in ledger.untraced:
                continue
            try:
                ledger.trace(experiment)
            except NoEvidenceError as error:
                if not ledger.found or not experiment.group:
                    raise
                ledger.untraced[experiment.group] = str(error)
            except ContractError as error:
                return judge(ledger, (experiment, error))
            if not effort.goes_on and any(one.is_wrong for one in ledger.found):
                break
    except NoEvidenceError:
        ledger.found.clear()
        raise
    if not ledger.found:
        raise NoEvidenceError("nothing could be traced")
    result = judge(ledger, None)
    guards = _of_guards(ledger)
    if result.status is Status.FAILED:
        try:
            line = confirmed(ledger.worst, context, effort, ledger.due)
        except UndecidedError as error:
            open_ = replace(result, status=Status.INCONCLUSIVE, how=How.SAMPLED, cause=Cause.UNDECIDED)
            return replace(open_, detail=f"{result.detail}; {error}")
    else:
        line = _agreed(ledger, context, effort)
    scope = (*result.remarks.scope, line, *guards)
    return replace(result, remarks=replace(result.remarks, scope=scope))


def _of_guards(ledger: Ledger) -> list[str]:
    """Return a line on how much guards of noise against zeros change at most, if there are any."""
    most = max(one.traced.guarded for one in ledger.found)
    what = "guards of the noise against zeros, as `+ 1e-10`, were left out"
    return [f"{what}: they change a distribution by {most:.1g} at most"] if most > 0 else []


def _findings(ledger: Ledger) -> Findings:
    return Findings(
        total_variation=max((one.total_variation for one in ledger.found), default=None),
        smallest_detectable_tv=max((one.experiment.allowed for one in ledger.found), default=None),
    )


def _judged(ledger: Ledger, broken: Broken | None, doubt: str) -> LawResult:
    """Say whether all traced distributions are the expected ones, up to rounding."""
    if broken is not None:
        experiment, error = broken
        is_output = isinstance(error, ImpossibleOutputError)
        cause = None if is_output else Cause.BROKEN_CONTRACT
        says, how = f"{experiment.what}: {error}", How.PROVEN
        return LawResult("", Status.FAILED, says, how, cause=cause, findings=_findings(ledger))
    findings, worst, own = _findings(ledger), ledger.worst, ledger.found
    gap, sizes = findings.total_variation or 0.0, list(dict.fromkeys(one.experiment.size for one in own))
    said = " (rounding)" if gap > ROUNDING else ""
    count = f"{len(own)} distribution{'s' * (len(own) != 1)}"
    detail = f"{count} of up to {sizes[-1]}: off by {gap:.1e} at most{said}"
    status, cause, shown = Status.PASSED, None, Shown()
    if worst.is_wrong:
        status, detail, gap = Status.FAILED, _failure(worst), worst.total_variation
        if worst.experiment.wrong_completion is not None:
            shown = Shown(worst.experiment.wrong_completion(worst.gap, worst.total_variation))
    elif not worst.is_right:
        status, cause, detail = Status.INCONCLUSIVE, Cause.UNDECIDED, f"{_size(worst)}; {doubt}"
    scope = (f"{count} of up to {sizes[-1]}, traced in {ledger.runs:,} runs",)
    tokens = max(one.experiment.tokens for one in own)
    measured = Measured(0.0, 0, gap, tokens, findings.smallest_detectable_tv)
    return LawResult(
        "", status, detail, How.PROVEN, measured, Remarks(scope), shown, cause, findings=findings
    )


def _size(found: TracedExperiment) -> str:
    what = found.experiment.what
    return f"{what}: total variation {found.total_variation:.3g} of {found.experiment.size}"


def _failure(found: TracedExperiment) -> str:
    gap, shown = found.gap, found.experiment.shown
    return (
        f"{found.experiment.what}: {shown(gap.sequence)} has probability {gap.actual:.{gap.digits}g}, "
        f"{gap.expected:.{gap.digits}g} expected (total variation {found.total_variation:.3g} of "
        f"{found.experiment.size}){found.traced.remark}"
    )


def _agreed(ledger: Ledger, context: Context, effort: Effort) -> str:
    """Compare uninstrumented samples with right traces; raise `NoEvidenceError` if they contradict one.

    Code may behave otherwise when its random numbers are traced.
    """
    some = [one for one in ledger.found if one.experiment.decides or effort.screens_all] or ledger.found
    longest = {one.experiment.what: one for one in some}
    samples = {what: Sample(one.experiment.many, listed(one.traced.law)) for what, one in longest.items()}
    laws = [sample.law for sample in samples.values()]
    needed = draws_needed_by_joint_e_process(effort.confirming, laws, alpha=context.rate)
    seconds = effort.confirming_share * context.budget / len(samples)
    for number, sample in enumerate(samples.values()):
        if effort.at_once:
            most = effort.look if number else effort.most  # some defects show in large batches only
            draw_within(sample, seconds, needed, start=effort.pilot, most=most)
            continue
        sample.draw(effort.pilot)
        pace = effort.pilot / max(sample.seconds, 1e-9)
        sample.draw(max(int(min(needed, seconds * pace)) - effort.pilot, 0))
    try:
        return confirm(samples, context.rate)
    except NoEvidenceError:
        if not effort.at_once:
            raise
    kinds = {what: (one.experiment.size, one.experiment.group) for what, one in longest.items()}
    return confirm(_in_one_call(samples, kinds, effort, seconds), context.rate)


def _in_one_call(
    samples: Mapping[str, Sample], kinds: Mapping[str, tuple[str, str]], effort: Effort, seconds: float
) -> dict[str, Sample]:
    """Return samples of one call each, as many at most: several calls may depend on each other."""
    again = {what: sample.afresh() for what, sample in samples.items()}
    sizes: dict[tuple[str, str], int] = {}  # one measurement for experiments of one size and kind
    for what, sample in again.items():
        kind = kinds[what]
        if kind not in sizes:
            drawn = int(samples[what].counts.sum())
            sizes[kind] = calls_within(sample.afresh, seconds, start=effort.pilot, most=drawn)
        sample.draw(sizes[kind])
    return again


def confirmed(found: TracedExperiment, context: Context, effort: Effort, due: float = math.inf) -> str:
    """Confirm a traced defect by samples; return a line on how it was confirmed.

    Where samples are too few, it is traced again, more than once before ``due`` only. Raises
    `NoEvidenceError` where samples contradict it, `UndecidedError` where they alone decide and are too few.
    """
    experiment, claim = found.experiment, found.traced.law
    cells = listed({**dict.fromkeys(claim, 0.0), **experiment.expected})
    sample = Sample(found.traced.many or experiment.many, cells)
    rate = shares.CLAIM_PART * context.rate
    claimed = np.array([*(claim.get(one, 0.0) for one in cells.outcomes), 0.0])
    seconds = shares.CLAIM_SHARE * context.budget
    is_confirmed = borne_out(
        sample, claimed, rate=rate, seconds=seconds, pilot=effort.pilot, most=effort.most
    )
    if not is_confirmed and not found.traced.is_decided:
        require_certain(experiment.expected)
    drawn = int(sample.counts.sum())
    if experiment.is_conditional and not is_confirmed:
        needed = draws_needed(claimed, sample.law, rate)
        more = 10 * math.ceil(1.5 * needed * sample.seconds / max(drawn, 1) / shares.CLAIM_SHARE / 10)
        raise UndecidedError(
            f"{drawn:,} samples neither confirm nor refute it; about {needed:,.0f} would (--budget {more:,})"
        )
    assert experiment.trace is not None
    find_again = partial(experiment.trace, shares.ENGINE_RUNS, math.inf)
    is_same = lambda again: distance(again.law, claim) <= _SAME  # noqa: E731
    repeats = 0 if is_confirmed else require_repeated(find_again, is_same, due)
    return describe(drawn, repeats)


def _with_samples(
    result: LawResult, by_samples: LawResult, untraced: Mapping[str, str], *, in_addition: bool
) -> LawResult:
    """Return a traced result, with the result of samples for the groups that could not be traced.

    Samples ``in_addition`` leave what was proven as it is.
    """
    notes = (*(f"{group}: {why}" for group, why in untraced.items()), *result.remarks.notes)
    remarks = Remarks((*result.remarks.scope, *by_samples.remarks.scope), notes)
    if by_samples.status is Status.FAILED:
        return replace(by_samples, remarks=remarks)
    detail = f"{result.detail}; {', '.join(untraced)}: {by_samples.detail}"
    if in_addition:
        measured = replace(result.measured, draws=by_samples.measured.draws)
        return replace(result, detail=detail, remarks=remarks, measured=measured)
    detectable = by_samples.findings.smallest_detectable_tv
    findings = replace(result.findings, smallest_detectable_tv=detectable)
    return replace(by_samples, detail=detail, remarks=remarks, findings=findings)


def sampled(
    experiments: Sequence[Experiment],
    context: Context,
    effort: Effort,
    ledger: Ledger | None = None,
    what: str = "",
) -> LawResult:
    """Say whether samples of experiments follow the expected distributions, within the budget.

    The ``ledger`` keeps them; ``what`` names the outcomes of all, in the plural.
    """
    chosen = {one.what: one for one in experiments if one.decides or effort.screens_all}
    own = {name: Sample(one.many, one.cells, one.shown) for name, one in chosen.items()}
    if ledger is not None:
        ledger.samples = own
    deciding = [name for name, one in chosen.items() if one.decides]
    decision = decide(own, deciding, effort, context.rate, context.budget, context.admitted, what)
    draws = sum(int(sample.counts.sum()) for sample in own.values())
    bounds = (total_variation_at_least(s.counts, s.law, alpha=1e-6) for s in own.values() if s.counts.any())
    bound = max(bounds, default=0.0)
    sizes = list(dict.fromkeys(one.size for one in chosen.values()))
    scope = (f"{draws:,} samples of {', '.join(sizes)}", *filter(None, [decision.statistics]))
    shown = Shown()
    if decision.worst is not None and (gap := own[decision.worst].gap):
        wrong_completion = chosen[decision.worst].wrong_completion
        shown = Shown(wrong_completion(*gap)) if wrong_completion else shown
    findings = Findings(
        total_variation=bound,
        smallest_detectable_tv=decision.detectable_tv if decision.worst is None else None,
        worst=decision.worst,
    )
    tokens = max(one.tokens for one in chosen.values())
    detectable = findings.smallest_detectable_tv
    if detectable is not None and math.isinf(detectable):  # too few samples: nothing would show
        detectable = None
    measured = Measured(context.rate, draws, bound, tokens, detectable)
    status, remarks = decision.status, Remarks(scope, do=decision.do)
    return LawResult("", status, decision.detail, How.SAMPLED, measured, remarks, shown, findings=findings)
