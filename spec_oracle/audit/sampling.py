"""Decisions by samples: an e-process screens, then a G test decides.

Half of a check's error rate is for the screening, which may stop at any look: gross defects are found within
seconds. The other half is for the G test, which takes as many samples as detect a stated total variation.
If none is stated, the screening takes a stated number of samples, and has the whole rate. Code that answers
over a network may end early: then the samples so far are judged.

Samples of a server cost much. They end at one of a few looks, where the stated total variation would have
shown by then: docs/theory.md, "Statistics".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.effort import SCREENING_SHARE
from spec_oracle.audit.experiment import Effort, Experiment, Ledger, Sample
from spec_oracle.audit.results import Findings, How, LawResult, Status, check_result, with_findings
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import (
    DEFAULT_MISS,
    EProcess,
    GoodnessOfFit,
    draws_needed_by_g,
    excluded_tv_by_g,
    goodness_of_fit_by_e_process,
    goodness_of_fit_by_g,
    split,
    total_variation_interval,
)

# Share of the time by which samples may overrun it where that decides.
SAMPLES_OVERRUN: Final = 0.1
CALL_GROWTH: Final = 4  # Factor from one measured call to the next.
# Parts of the planned samples at which they may end, and the chance of a miss at each; the end has the rest.
SAMPLES_LOOKS: Final = (0.5, 0.65, 0.8)
SAMPLES_LOOK_MISS: Final = 1e-4
_LAST_MISS: Final = DEFAULT_MISS - len(SAMPLES_LOOKS) * SAMPLES_LOOK_MISS


@dataclass(frozen=True)
class SampledDecision:
    """Whether samples follow their laws.

    ``worst`` names one that does not, None without one; ``reason`` says how that is known, ``statistics`` is
    the test behind it. ``detectable_tv`` would have been detected in each, infinite where nothing was
    decided; ``draws`` counts all samples.
    """

    worst: str | None
    reason: str
    statistics: str
    detectable_tv: float
    draws: int


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
    chosen = [one for one in experiments if one.decides or effort.screens_all]
    own = {one.what: Sample(one, one.cells) for one in chosen}
    if ledger is not None:
        ledger.samples = own
    seconds = effort.share * context.budget
    look = _look(next(iter(own.values())), seconds / len(own), effort)
    decision = judge_samples(
        own,
        replace(effort, look=look),
        rate=context.rate,
        seconds=seconds,
        names=[what for what, sample in own.items() if sample.experiment.decides],
        admitted=context.admitted,
    )
    status, detail = _describe(decision, own, effort, what)
    draws = sum(int(sample.counts.sum()) for sample in own.values())
    bounds = (
        total_variation_interval(s.counts, s.law, alpha=1e-6).lower for s in own.values() if s.counts.any()
    )
    detectable = decision.detectable_tv if decision.worst is None else None
    findings = Findings(
        total_variation=max(bounds, default=0.0), smallest_detectable_tv=detectable, worst=decision.worst
    )
    sizes = list(dict.fromkeys(sample.experiment.size for sample in own.values()))
    worst, completion = own.get(decision.worst or ""), None
    if status is Status.FAILED and worst is not None and worst.gap and worst.experiment.wrong_completion:
        completion = worst.experiment.wrong_completion(*worst.gap)
    result = check_result(
        status,
        detail,
        how=How.SAMPLED,
        alpha=context.rate,
        draws=draws,
        total_variation=findings.total_variation,
        tokens=max(sample.experiment.tokens for sample in own.values()),
        detectable=None if detectable == math.inf else detectable,  # too few samples: nothing would show
        scope=(f"{draws:,} samples of {', '.join(sizes)}", *filter(None, [decision.statistics])),
        do=_budget_for(own, effort, context) if status is Status.INCONCLUSIVE else "",
        completion=completion,
    )
    return with_findings(result, findings)


def _look(sample: Sample, seconds: float, effort: Effort) -> int:
    """Return the number of samples between two looks; a call of many may take its part of ``seconds``."""
    if not effort.at_once:
        return effort.look
    seconds *= SCREENING_SHARE
    return calls_within(sample, seconds, start=min(effort.pilot, effort.look), most=effort.look)


def _describe(
    decision: SampledDecision, samples: Mapping[str, Sample], effort: Effort, what: str
) -> tuple[Status, str]:
    """Return the status of a decision by samples, and its sentence."""
    if decision.worst is not None:
        worst, detail = samples[decision.worst], f"{decision.worst}: {decision.reason}"
        if worst.gap is not None:
            gap = worst.gap[0]
            detail += f"; {gap.actual:.3g} of them are {worst.experiment.shown(gap.sequence)}, "
            detail += f"{gap.expected:.3g} expected"
        return Status.FAILED, detail
    tv = f"a total variation of {decision.detectable_tv:.2g} would show"
    least = f" ({tv})" if decision.detectable_tv < 1 else ""
    if math.isinf(effort.tv) and not effort.wanted:  # the screening alone decides
        few = " (too few to show a defect)"
        named = what or ", ".join(samples)
        return Status.PASSED, f"{named}: {decision.draws:,} samples are as expected{least or few}"
    named = f"{what}: " if what else ""
    if decision.detectable_tv <= effort.tv:
        return Status.PASSED, f"{named}no defect in {decision.draws:,} samples{least}"
    pace = decision.draws / max(_seconds([*samples.values()]), 1e-9)
    return Status.INCONCLUSIVE, (
        f"{named}{decision.draws:,} samples, at {pace:.0f} a second, are too few to detect a total variation "
        f"of {effort.tv}{least}; raise --budget"
    )


def _budget_for(samples: Mapping[str, Sample], effort: Effort, context: Context) -> str:
    """Return the ``--budget`` that should pay for enough samples, and half as many again."""
    decided = [sample for sample in samples.values() if sample.experiment.decides]
    part = split(split(context.rate, 2), len(decided))
    seconds = sum(
        draws_needed_by_g(effort.tv, one.law, alpha=part) * one.seconds / max(int(one.counts.sum()), 1)
        for one in decided
    )
    needed = 1.5 * seconds / (1 - SCREENING_SHARE) / effort.share
    return f"--budget {10 * math.ceil(max(needed, 1.5 * context.budget) / 10)}"


def judge_samples(
    samples: Mapping[str, Sample],
    effort: Effort,
    *,
    rate: float,
    seconds: float,
    names: Sequence[str] = (),
    admitted: float | None = None,
) -> SampledDecision:
    """Judge samples of many laws, within ``seconds``: screen all, and decide those of some ``names``.

    Screening takes ``effort.look`` samples of each, then by turns, at most ``effort.turns`` times and within
    its share of the time. The G test takes samples of its own, since looks at those of the screening decided
    how many there are; or it ``keeps`` them if there is a single law. It takes as many as detect the planned
    total variation, in calls of ``effort.most`` at most; they are added to the others in the end. Samples
    that it keeps end where it would have shown already. With an infinite one there is no G test, and the
    screening has all of the rate and the time. A total variation up to ``admitted`` is on record: a wrong
    sample grows until it shows a larger one, or is as large as planned.
    If the code raises, all samples before that decide, if they suffice.
    """
    listed, tv, keeps = list(samples.values()), effort.wanted or effort.tv, effort.keeps
    half, share = (rate, 1.0) if math.isinf(tv) else (split(rate, 2), SCREENING_SHARE)
    own = {name: samples[name] if keeps else samples[name].afresh() for name in names or samples}
    try:
        process = screen(listed, half, effort, share * seconds)
        if process.p_value <= half:
            found = _contradicted(process, list(samples), half)
            worst = samples[found.worst or ""]
            if admitted is not None:
                planned = effort.look * (1 + effort.turns)
                needed = planned if math.isinf(tv) else draws_needed_by_g(tv, worst.law, alpha=half)
                left = seconds - _seconds(listed) + worst.seconds
                _grow(worst, admitted, rate, needed=needed, look=effort.look, seconds=left)
            return found
        if math.isinf(tv):
            fit = goodness_of_fit_by_e_process(process, alpha=rate)
            return SampledDecision(None, "", str(fit), fit.smallest_detectable_tv, fit.draws)
        part = split(half, len(own))
        if keeps:
            (sample,) = own.values()
            if _is_clear(sample, effort, rate=part, seconds=seconds):
                return SampledDecision(None, "", "", tv, int(sample.counts.sum()))
        return _decided(own, [] if keeps else listed, effort, rate=part, seconds=seconds)
    except SubjectRaisedError as error:
        process = evidence([*listed, *(() if keeps else own.values())])
        if process.p_value > split(rate, 2):
            raise
        found = _contradicted(process, [*samples, *own], split(rate, 2))
        return replace(found, statistics=f"{found.statistics}, and then it {error}")
    finally:
        for name, sample in own.items() if not keeps else ():
            samples[name].counts += sample.counts
            samples[name].seconds += sample.seconds


def _grow(sample: Sample, admitted: float, rate: float, *, needed: float, look: int, seconds: float) -> None:
    """Draw until a larger total variation than ``admitted`` shows, or so many or so long are enough."""
    before = -1
    while total_variation_interval(sample.counts, sample.law, alpha=rate).lower <= admitted:
        drawn = int(sample.counts.sum())
        if drawn == before or drawn >= needed or sample.seconds > seconds:
            return
        sample.draw(look)
        before = drawn


def _decided(
    own: Mapping[str, Sample], screened: Sequence[Sample], effort: Effort, *, rate: float, seconds: float
) -> SampledDecision:
    """Decide each sample by the G test at the ``rate``; ``screened`` samples have taken time, too."""
    every, tv = [*screened, *own.values()], effort.wanted or effort.tv
    miss = _LAST_MISS if effort.keeps else DEFAULT_MISS
    # What one leaves of its share of the time is for the others, in a second turn, with a little more.
    for turn, allowed in enumerate((seconds, (1 + SAMPLES_OVERRUN) * seconds)):
        for position, sample in enumerate(own.values()):
            left = (allowed - _seconds(every)) / (1 if turn else len(own) - position)
            needed = _needed(sample, tv, rate, miss) - int(sample.counts.sum())
            if needed > 0 and (left > 0 or not turn):
                draw_within(sample, left, needed, start=min(effort.look, needed), most=effort.most)
    draws, detectable = sum(int(some.counts.sum()) for some in every), 0.0
    for name, sample in own.items():
        if not sample.counts.any():
            detectable = math.inf
            continue
        fit = goodness_of_fit_by_g(sample.counts, sample.law, alpha=rate, slack=sample.slack)
        detectable = max(detectable, fit.smallest_detectable_tv)
        if not fit.passed:
            return SampledDecision(name, _contradiction(fit), str(fit), math.inf, draws)
    return SampledDecision(None, "", "", detectable, draws)


def _is_clear(sample: Sample, effort: Effort, *, rate: float, seconds: float) -> bool:
    """Draw up to each look in turn, within ``seconds``: whether the planned size would have shown by then.

    The chance that a larger total variation is missed at any look is that of all looks, added up.
    """
    tv = effort.wanted or effort.tv
    try:
        planned = draws_needed_by_g(tv, sample.law, alpha=rate, miss=_LAST_MISS, slack=sample.slack)
    except InvalidInputError:  # the slack hides as much
        return False
    for part in SAMPLES_LOOKS:
        needed = math.ceil(part * planned) - int(sample.counts.sum())
        if needed > 0 and sample.seconds < seconds:
            left = seconds - sample.seconds
            draw_within(sample, left, needed, start=min(effort.look, needed), most=effort.most)
        draws = int(sample.counts.sum())
        if draws < part * planned:
            return False
        fit = goodness_of_fit_by_g(sample.counts, sample.law, alpha=rate, slack=sample.slack)
        excluded = excluded_tv_by_g(fit.statistic, draws, sample.law, miss=SAMPLES_LOOK_MISS)
        if fit.passed and excluded <= tv:
            return True
    return False


def _needed(sample: Sample, tv: float, rate: float, miss: float) -> int:
    """Return how many samples detect ``tv``; without the slack, if the slack hides as much."""
    try:
        return draws_needed_by_g(tv, sample.law, alpha=rate, miss=miss, slack=sample.slack)
    except InvalidInputError:
        return draws_needed_by_g(tv, sample.law, alpha=rate, miss=miss)


def screen(samples: Sequence[Sample], rate: float, effort: Effort, seconds: float) -> EProcess:
    """Sample each once, then by turns where the evidence is strongest and where the samples are fewest.

    Stops when the evidence suffices for ``rate``, or turns or ``seconds`` are over.
    """
    process = evidence(samples)
    for turn in range(len(samples) + effort.turns):
        if turn >= len(samples) and _seconds(samples) > seconds:
            break
        if turn < len(samples) or turn % 2:
            number = int(np.argmin([sample.counts.sum() for sample in samples]))
        else:
            number = int(process.log_e_by_sample.argmax())
        samples[number].draw(effort.look)
        process = evidence(samples)
        if process.p_value <= rate:
            break
    return process


def evidence(samples: Sequence[Sample]) -> EProcess:
    """Return the e-process of all samples so far."""
    process = EProcess.against([sample.law for sample in samples])
    for number, sample in enumerate(samples):
        process = process.observe(sample.counts, number, slack=sample.slack)
    return process


def _contradicted(process: EProcess, names: Sequence[str], rate: float) -> SampledDecision:
    worst = names[int(process.log_e_by_sample.argmax())]
    statistics = f"e-process: p-value {process.p_value:.1e} after {process.draws} samples"
    reason = _contradiction(goodness_of_fit_by_e_process(process, alpha=rate))
    return SampledDecision(worst, reason, statistics, math.inf, process.draws)


def _contradiction(fit: GoodnessOfFit) -> str:
    """Say that samples contradict their distribution, and whether one of them was impossible."""
    impossible = ", some of them outcomes of probability 0" if fit.off_support else ""
    return f"{fit.draws:,} samples contradict the expected distribution{impossible}"


def _seconds(samples: Sequence[Sample]) -> float:
    return sum(sample.seconds for sample in samples)


def draw_within(sample: Sample, seconds: float, count: int, *, start: int, most: int) -> None:
    """Add ``count`` samples, fewer if they take longer: in calls of ``start``, then of up to ``most``.

    A call that compiles says little of the pace of the others, so every one is timed.
    """
    end, size, goal = sample.seconds + seconds, start, int(sample.counts.sum()) + count
    least = int(sample.counts.sum()) + start
    while (drawn := int(sample.counts.sum())) < goal and (drawn < least or sample.seconds < end):
        before = sample.seconds
        sample.draw(min(size, goal - drawn))
        if sample.counts.sum() == drawn:  # there are no more
            break
        room = (end - sample.seconds) / max(sample.seconds - before, 1e-9)
        size = max(start, min(most, int(size * min(room, CALL_GROWTH))))


def calls_within(sample: Sample, seconds: float, *, start: int, most: int) -> int:
    """Return how many samples one call can take in about that time, from ``start`` to ``most``.

    Measured by calls of growing size, on samples that do not count. The first may compile; work may grow
    faster than the number of samples.
    """
    sample.afresh().draw(start)
    count = start
    while count < most:
        trial = sample.afresh()
        trial.draw(count)
        room = seconds / max(trial.seconds, 1e-9)
        if room < CALL_GROWTH:
            return max(start, min(most, int(count * room)))
        count *= CALL_GROWTH
    return max(start, most)
