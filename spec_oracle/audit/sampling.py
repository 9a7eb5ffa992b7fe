"""Decisions by samples: an e-process screens, then a G test decides.

Half of a check's error rate is for the screening, which may stop at any look: gross defects are found within
seconds. The other half is for the G test, which takes as many samples as detect a stated total variation.
If none is stated, the screening takes a stated number of samples, and has the whole rate. Code that answers
over a network may end early: then the samples so far are judged.

Samples of a server cost much. They end at one of a few looks, where the stated total variation would have
shown by then: docs/theory.md, "Statistics".
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle import clock
from spec_oracle.audit.results import Status
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import Gap
from spec_oracle.statistics import (
    DEFAULT_MISS,
    EProcess,
    GoodnessOfFit,
    draws_needed_by_g,
    excluded_tv_by_g,
    goodness_of_fit_by_e_process,
    goodness_of_fit_by_g,
    split,
    total_variation_at_least,
)

SCREENING_SHARE: Final = 0.25  # Share of the time for samples that the screening may take; also of engines.
# Share of the time by which samples may overrun it where that decides.
SAMPLES_OVERRUN: Final = 0.1
CALL_GROWTH: Final = 4  # Factor from one measured call to the next.
# Parts of the planned samples at which they may end, and the chance of a miss at each; the end has the rest.
SAMPLES_LOOKS: Final = (0.5, 0.65, 0.8)
SAMPLES_LOOK_MISS: Final = 1e-4
_LAST_MISS: Final = DEFAULT_MISS - len(SAMPLES_LOOKS) * SAMPLES_LOOK_MISS


@dataclass(frozen=True)
class OutcomeCells:
    """Cells in which outcomes are counted: their probabilities ``law`` [C].

    ``of`` returns the cells of outcomes, int [N]; ``outcomes`` are those of the first cells, None for a cell
    of several. Laws within a factor of exp(+-``slack``), [C] or a number, count as right.
    """

    law: NDArray[np.float64]
    of: Callable[[Sequence[Any]], NDArray[np.int64]]
    outcomes: Sequence[Any] = ()
    slack: NDArray[np.float64] | float = 0.0


def listed(law: Mapping[Any, float]) -> OutcomeCells:
    """Return a cell for every outcome of a distribution, and a last one for all others."""
    number = {outcome: place for place, outcome in enumerate(law)}
    masses = np.array([*law.values(), 0.0])
    cell_of = lambda outcomes: np.array([number.get(one, len(number)) for one in outcomes], np.int64)  # noqa: E731
    return OutcomeCells(masses / masses.sum(), cell_of, tuple(law))


def indexed(law: NDArray[np.float64]) -> OutcomeCells:
    """Return a cell for every outcome, where outcomes are numbers from 0 on."""
    return OutcomeCells(law, lambda found: np.asarray(found, np.int64), range(len(law)))


def in_bins(law: NDArray[np.float64]) -> OutcomeCells:
    """Return bins that hold several outcomes each, where outcomes are the numbers of their bins."""
    return replace(indexed(law), outcomes=())


@dataclass
class Sample:
    """Outcomes of ordinary runs, counted in cells; ``many`` makes so many runs, and returns their outcomes.

    ``law`` [C] are the probabilities of the cells, ``slack`` is by how much a right law may differ, nats;
    ``counts`` [C] are outcomes so far, ``seconds`` those of the code under test, ``impossible`` outcomes of
    probability 0, where cells name outcomes. ``shown`` words an outcome.
    """

    many: Callable[[int], Sequence[Any]]
    cells: OutcomeCells
    shown: Callable[[Any], str] = str
    law: NDArray[np.float64] = field(init=False)
    slack: NDArray[np.float64] | float = field(init=False)
    counts: NDArray[np.int64] = field(init=False)
    seconds: float = field(default=0.0, init=False)
    impossible: Counter[Any] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        self.law, self.slack = self.cells.law, self.cells.slack
        self.counts = np.zeros(len(self.law), dtype=np.int64)

    def draw(self, count: int) -> None:
        """Make ``count`` runs more; they may have fewer outcomes."""
        started = clock.now()
        outcomes = self.many(count)
        cells = self.cells.of(outcomes)
        self.counts += np.bincount(cells, minlength=len(self.counts))
        if self.cells.outcomes:
            self.impossible.update(
                outcomes[number] for number in np.flatnonzero(self.law[cells] == 0).tolist()
            )
        self.seconds += clock.now() - started

    def afresh(self) -> "Sample":
        """Return an empty sample of the same runs."""
        return replace(self)

    @property
    def gap(self) -> tuple[Gap, float] | None:
        """The outcome with the largest gap and the total variation, as sampled; None without outcomes."""
        named = [cell for cell, one in enumerate(self.cells.outcomes) if one is not None]
        if not named or not self.counts.any():
            return None
        total = self.counts.sum()
        seen, most = self.counts / total, self.impossible.most_common(1)
        gaps = [Gap(self.cells.outcomes[cell], float(self.law[cell]), float(seen[cell])) for cell in named]
        gaps += [Gap(outcome, 0.0, float(count / total)) for outcome, count in most]
        gap = max(gaps, key=lambda one: abs(one.actual - one.expected))
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

    @property
    def is_of_looks(self) -> bool:
        """Whether the screening alone decides."""
        return math.isinf(self.tv) and not self.wanted


@dataclass(frozen=True)
class SampledDecision:
    """Whether samples follow their laws.

    ``worst`` names one that does not, None without one; ``reason`` says how that is known, ``statistics`` is
    the test behind it. ``detectable_tv`` would have been detected in each, infinite where nothing was
    decided; ``detectable`` says it in words, where there is more to say. ``draws`` counts all samples.
    ``status`` and ``detail`` say it for people, ``do`` how to know more.
    """

    worst: str | None
    reason: str
    statistics: str
    detectable_tv: float
    draws: int
    status: Status = Status.PASSED
    detail: str = ""
    do: str = ""
    detectable: str = ""


def decide(  # noqa: PLR0917
    samples: Mapping[str, Sample],
    names: Sequence[str],
    effort: Effort,
    rate: float,
    budget: float,
    admitted: float | None = None,
    what: str = "",
) -> SampledDecision:
    """Judge samples with an effort, within its share of the budget, and say what they show.

    Those of some ``names`` decide, so that only what they detect is stated; ``what`` names the outcomes of
    all, in the plural. See `judge_samples`.
    """
    seconds = effort.share * budget
    found = judge_samples(samples, effort, rate=rate, seconds=seconds, names=names, admitted=admitted)
    if found.worst is not None:
        worst, detail = samples[found.worst], f"{found.worst}: {found.reason}"
        if worst.gap is not None:
            gap = worst.gap[0]
            detail += f"; {gap.actual:.3g} of them are {worst.shown(gap.sequence)}, "
            detail += f"{gap.expected:.3g} expected"
        return replace(found, status=Status.FAILED, detail=detail)
    between = "between bins, " * (not all(sample.cells.outcomes for sample in samples.values()))
    detectable = found.detectable or f"a total variation of {found.detectable_tv:.2g}"
    detectable += f" at {' or '.join(names)}" if 0 < len(names) < len(samples) else ""
    least = f" ({between}{detectable} would show)" if found.detectable_tv < 1 else ""
    count, named = f"{found.draws:,} samples", f"{what}: " if what else ""
    if effort.is_of_looks:
        few = " (too few to show a defect)"
        return replace(found, detail=f"{what or ', '.join(samples)}: {count} are as expected{least or few}")
    if found.detectable_tv <= effort.tv:
        return replace(found, detail=f"{named}no defect in {count}{least}")
    pace = found.draws / max(_seconds(samples.values()), 1e-9)
    few = f"{count}, at {pace:.0f} a second, are too few to detect a total variation of {effort.tv}"
    do = budget_for([samples[name] for name in names], effort, rate, budget)
    detail = f"{named}{few}{least}; raise --budget"
    return replace(found, status=Status.INCONCLUSIVE, detail=detail, do=do)


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

    Screening draws a look of each, then by turns, within its share of the time. The G test takes samples of
    its own, since looks at those of the screening decided how many there are; or it keeps them if there is a
    single law. It takes as many as detect the total variation of the effort; they are added to the others in
    the end. Samples that it keeps end where that would have shown already. With an infinite one
    there is no G test, and the screening has all of the rate and the time. A total variation up to
    ``admitted`` is on record: a wrong sample grows until it shows a larger one, or is as large as planned.
    If the code raises, all samples before that decide, if they suffice.
    """
    each, tv, turns, keeps = list(samples.values()), effort.wanted or effort.tv, effort.turns, effort.keeps
    is_screened_only, most, batch = effort.is_of_looks, effort.most, effort.look
    if effort.at_once:
        few = min(effort.pilot, batch)
        batch = calls_within(each[0].afresh, SCREENING_SHARE * seconds / len(each), start=few, most=batch)
    half, share = (rate, 1.0) if is_screened_only else (split(rate, 2), SCREENING_SHARE)

    def sizes() -> Iterator[int]:
        for turn in range(len(samples) + turns):
            is_over = _seconds(each) > share * seconds
            if is_over and turn >= len(samples):
                break
            yield batch

    own = {name: samples[name] if keeps else samples[name].afresh() for name in names or samples}
    try:
        process = screen(each, half, sizes())
        if process.p_value <= half:
            found = _contradicted(process, list(samples), half)
            worst = samples[found.worst or ""]
            needed = batch * (1 + turns) if is_screened_only else draws_needed_by_g(tv, worst.law, alpha=half)
            before = -1
            while admitted is not None and not shows_more(worst, admitted, rate):
                drawn = int(worst.counts.sum())
                if drawn == before or drawn >= needed or _seconds(each) > seconds:
                    break
                worst.draw(batch)
                before = drawn
            return found
        if is_screened_only:
            fit = goodness_of_fit_by_e_process(process, alpha=rate)
            tv = fit.smallest_detectable_tv
            return SampledDecision(None, "", str(fit), tv, fit.draws, detectable=fit.detectable)
        part, others = split(half, len(own)), [] if keeps else each
        if keeps:
            (sample,) = own.values()
            if _is_clear(sample, rate=part, seconds=seconds, tv=tv, batch=batch, most=most):
                return SampledDecision(None, "", "", tv, int(sample.counts.sum()))
        miss = _LAST_MISS if keeps else DEFAULT_MISS
        return _decided(own, others, rate=part, seconds=seconds, tv=tv, batch=batch, most=most, miss=miss)
    except SubjectRaisedError as error:
        evidence = _evidence([*each, *(() if keeps else own.values())])
        if evidence.p_value > split(rate, 2):
            raise
        found = _contradicted(evidence, [*samples, *own], split(rate, 2))
        return replace(found, statistics=f"{found.statistics}, and then it {error}")
    finally:
        for name, sample in own.items() if not keeps else ():
            samples[name].counts += sample.counts
            samples[name].impossible += sample.impossible
            samples[name].seconds += sample.seconds


def _decided(
    own: Mapping[str, Sample],
    screened: Sequence[Sample],
    *,
    rate: float,
    seconds: float,
    tv: float,
    batch: int,
    most: int,
    miss: float = DEFAULT_MISS,
) -> SampledDecision:
    """Decide each sample by the G test at the ``rate``; ``screened`` samples have taken time, too.

    Planned samples miss ``tv`` with a probability of ``miss`` at most.
    """
    every = [*screened, *own.values()]
    # What one leaves of its share of the time is for the others, in a second turn, with a little more.
    for turn, allowed in enumerate((seconds, (1 + SAMPLES_OVERRUN) * seconds)):
        for position, sample in enumerate(own.values()):
            left = (allowed - _seconds(every)) / (1 if turn else len(own) - position)
            needed = _needed(sample, tv, rate, miss) - int(sample.counts.sum())
            if needed > 0 and (left > 0 or not turn):
                draw_within(sample, left, needed, start=min(batch, needed), most=most)
    draws, detectable = sum(int(some.counts.sum()) for some in every), 0.0
    for name, sample in own.items():
        if not sample.counts.any():
            detectable = math.inf
            continue
        fit = goodness_of_fit_by_g(sample.counts, sample.law, alpha=rate, slack=sample.slack)
        detectable = max(detectable, fit.smallest_detectable_tv)
        if not fit.passed:
            return SampledDecision(name, contradiction(fit), str(fit), math.inf, draws)
    return SampledDecision(None, "", "", detectable, draws)


def _is_clear(sample: Sample, *, rate: float, seconds: float, tv: float, batch: int, most: int) -> bool:
    """Draw up to each look in turn, within ``seconds``: whether ``tv`` would have shown by then.

    The chance that a larger total variation is missed at any look is that of all looks, added up.
    """
    try:
        planned = draws_needed_by_g(tv, sample.law, alpha=rate, miss=_LAST_MISS, slack=sample.slack)
    except InvalidInputError:  # the slack hides as much
        return False
    for part in SAMPLES_LOOKS:
        needed = math.ceil(part * planned) - int(sample.counts.sum())
        if needed > 0 and sample.seconds < seconds:
            draw_within(sample, seconds - sample.seconds, needed, start=min(batch, needed), most=most)
        draws = int(sample.counts.sum())
        if draws < part * planned:
            return False
        fit = goodness_of_fit_by_g(sample.counts, sample.law, alpha=rate, slack=sample.slack)
        excluded = excluded_tv_by_g(fit.statistic, draws, sample.law, miss=SAMPLES_LOOK_MISS)
        if fit.passed and excluded <= tv:
            return True
    return False


def shows_more(sample: Sample, admitted: float, rate: float) -> bool:
    """Whether samples show a larger total variation than the one on record."""
    return total_variation_at_least(sample.counts, sample.law, alpha=rate) > admitted


def _needed(sample: Sample, tv: float, rate: float, miss: float) -> int:
    """Return how many samples detect ``tv``; without the slack, if the slack hides as much."""
    try:
        return draws_needed_by_g(tv, sample.law, alpha=rate, miss=miss, slack=sample.slack)
    except InvalidInputError:
        return draws_needed_by_g(tv, sample.law, alpha=rate, miss=miss)


def screen(samples: Sequence[Sample], rate: float, sizes: Iterable[int]) -> EProcess:
    """Sample each once, then by turns where the evidence is strongest and where the samples are fewest.

    Stops when the evidence suffices for ``rate``, or ``sizes`` of what to draw next end.
    """
    process = _evidence(samples)
    for turn, size in enumerate(sizes):
        if turn < len(samples) or turn % 2:
            number = int(np.argmin([sample.counts.sum() for sample in samples]))
        else:
            number = int(process.log_e_by_sample.argmax())
        samples[number].draw(size)
        process = _evidence(samples)
        if process.p_value <= rate:
            break
    return process


def _evidence(samples: Sequence[Sample]) -> EProcess:
    """Return the e-process of all samples so far."""
    process = EProcess.against([sample.law for sample in samples])
    for number, sample in enumerate(samples):
        process = process.observe(sample.counts, number, slack=sample.slack)
    return process


def _contradicted(process: EProcess, names: Sequence[str], rate: float) -> SampledDecision:
    worst = names[int(process.log_e_by_sample.argmax())]
    statistics = f"e-process: p-value {process.p_value:.1e} after {process.draws} samples"
    reason = contradiction(goodness_of_fit_by_e_process(process, alpha=rate))
    return SampledDecision(worst, reason, statistics, math.inf, process.draws)


def contradiction(fit: GoodnessOfFit) -> str:
    """Say that samples contradict their distribution, and whether one of them was impossible."""
    impossible = ", some of them outcomes of probability 0" if fit.off_support else ""
    return f"{fit.draws:,} samples contradict the expected distribution{impossible}"


def _seconds(samples: Iterable[Sample]) -> float:
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


def calls_within(trial: Callable[[], Sample], seconds: float, *, start: int, most: int) -> int:
    """Return how many samples one call can take in about that time, from ``start`` to ``most``.

    Measured by calls of growing size on samples of their own, each made by ``trial``. The first may compile;
    work may grow faster than the number of samples.
    """
    trial().draw(start)
    count = start
    while count < most:
        sample = trial()
        sample.draw(count)
        room = seconds / max(sample.seconds, 1e-9)
        if room < CALL_GROWTH:
            return max(start, min(most, int(count * room)))
        count *= CALL_GROWTH
    return max(start, most)


def budget_for(decided: Sequence[Sample], effort: Effort, rate: float, budget: float) -> str:
    """Return the ``--budget`` that should pay for enough samples, and half as many again."""
    part = split(split(rate, 2), len(decided))
    seconds = sum(
        draws_needed_by_g(effort.tv, one.law, alpha=part) * one.seconds / max(int(one.counts.sum()), 1)
        for one in decided
    )
    needed = 1.5 * seconds / (1 - SCREENING_SHARE) / effort.share
    return f"--budget {10 * math.ceil(max(needed, 1.5 * budget) / 10)}"
