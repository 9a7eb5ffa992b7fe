"""How experiments are decided: traced if they can be, and sampled else.

`find` traces the outcomes of an experiment if it can: every random decision is run, and uninstrumented
samples confirm the result. Else samples decide: an e-process screens, then a G test. A traced defect is
reported only after samples have confirmed it at its own size. See docs/how-it-works/decisions.md.

A die that is called fair, and shows a six more often than it should:

>>> import numpy as np
>>> from spec_oracle.audit.experiment import Experiment
>>> rng = np.random.default_rng(0)
>>> law = {face: 1 / 6 for face in range(1, 7)}
>>> throw = lambda count: rng.choice([1, 2, 3, 4, 5, 6, 6], size=count).tolist()
>>> die = Experiment("a die", "one throw", lambda: law, throw)
>>> find([die], Context(rate=1e-6, budget=5.0), Effort(tv=0.05, look=500)).status.value
'failed'
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TypeAlias

from spec_oracle.audit.confirm import UndecidedError, agreed, confirmed
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.declared import ROUNDING
from spec_oracle.audit.experiment import Effort, Experiment, Ledger, TracedExperiment
from spec_oracle.audit.results import (
    Cause,
    Findings,
    How,
    LawResult,
    NoEvidenceError,
    Remarks,
    Status,
    breach,
    check_result,
    with_findings,
)
from spec_oracle.audit.sampling import sampled
from spec_oracle.contracts import ContractError

Listing: TypeAlias = Callable[[Ledger], Iterable[Experiment]]
"""Yields experiments; it may look at the traces of those before."""

Broken: TypeAlias = tuple[Experiment, ContractError]
"""An experiment that broke the contract, and the error."""

Judge: TypeAlias = Callable[[Ledger, Broken | None], LawResult]
"""Judges traced experiments, up to one that broke the contract."""


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
        line = agreed(ledger.found, context, effort)
    scope = (*result.remarks.scope, line, *guards)
    return replace(result, remarks=replace(result.remarks, scope=scope))


def _of_guards(ledger: Ledger) -> list[str]:
    """Return a line on how much guards of noise against zeros change at most, if there are any."""
    most = max(one.traced.guarded for one in ledger.found)
    what = "guards of the noise against zeros, as `+ 1e-10`, were left out"
    return [f"{what}: they change a distribution by {most:.1g} at most"] if most > 0 else []


def _judged(ledger: Ledger, broken: Broken | None, doubt: str) -> LawResult:
    """Say whether all traced distributions are the expected ones, up to rounding."""
    own = ledger.found
    findings = Findings(
        total_variation=max((one.total_variation for one in own), default=None),
        smallest_detectable_tv=max((one.experiment.allowed for one in own), default=None),
    )
    if broken is not None:
        experiment, error = broken
        says = replace(breach(error, How.PROVEN), detail=f"{experiment.what}: {error}")
        return with_findings(says, findings)
    worst, gap = ledger.worst, findings.total_variation or 0.0
    said = " (rounding)" if gap > ROUNDING else ""
    size = list(dict.fromkeys(one.experiment.size for one in own))[-1]
    what = f"{len(own)} distribution{'s' * (len(own) != 1)} of up to {size}"
    detail = f"{what}: off by {gap:.1e} at most{said}"
    status, cause, completion = Status.PASSED, None, None
    if worst.is_wrong:
        status, detail, gap = Status.FAILED, _failure(worst), worst.total_variation
        if worst.experiment.wrong_completion is not None:
            completion = worst.experiment.wrong_completion(worst.gap, worst.total_variation)
    elif not worst.is_right:
        status, cause, which = Status.INCONCLUSIVE, Cause.UNDECIDED, worst.experiment
        detail = f"{which.what}: total variation {worst.total_variation:.3g} of {which.size}; {doubt}"
    result = check_result(
        status,
        detail,
        how=How.PROVEN,
        total_variation=gap,
        tokens=max(one.experiment.tokens for one in own),
        detectable=findings.smallest_detectable_tv,
        scope=(f"{what}, traced in {ledger.runs:,} runs",),
        completion=completion,
        cause=cause,
    )
    return with_findings(result, findings)


def _failure(found: TracedExperiment) -> str:
    gap, shown = found.gap, found.experiment.shown
    return (
        f"{found.experiment.what}: {shown(gap.sequence)} has probability {gap.actual:.{gap.digits}g}, "
        f"{gap.expected:.{gap.digits}g} expected (total variation {found.total_variation:.3g} of "
        f"{found.experiment.size}){found.traced.remark}"
    )


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
