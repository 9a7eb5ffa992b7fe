"""Checks of code that can only be run: draws against exact laws, at stated error rates.

Many instances with few draws come first, watched by one e-process. It may stop at any look, and draw next
where its evidence is strongest: defects that show on one instance only are found there within seconds. Then
one instance after another is drawn often enough for the G test to find any defect of total variation
`TARGET_TV`. Both share the rate of the check evenly.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.audit.plain import ContractError, SubjectRaisedError, call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import first_failure, judged
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, Gap
from spec_oracle.exact.gap import largest_gap
from spec_oracle.statistics import (
    EProcess,
    GoodnessOfFit,
    draws_needed_by_g,
    goodness_of_fit_by_g,
    total_variation_interval,
)
from spec_oracle.toy import Instance

TARGET_TV = 0.02
"""Total variation that a sampled audit must be able to find before it may call a subject lossless."""

CROSS_CHECK_DRAWS = 2000
BATCH = 1000
FOLLOW_UPS = 32
"""Batches of the screening beyond the first of every instance."""

SCREENING_SHARE = 0.25
"""Share of the time that the screening may take."""

_PILOT = 16

MAIN_INSTANCES = ("good-draft", "reversed")


@dataclass
class Sample:
    """What was drawn of one instance: counts of extended texts, and of accepted lengths."""

    instance: Instance
    law: NDArray[np.float64]
    cells: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, instance: Instance) -> "Sample":
        """Return the empty sample of an instance."""
        floats = instance.floats
        law = floats.target.joint(floats.draft_length + 1)
        return cls(floats, law, np.zeros(len(law), np.int64), np.zeros(floats.draft_length + 1, np.int64))

    @property
    def draws(self) -> int:
        """Calls drawn so far."""
        return int(self.cells.sum())

    @property
    def total_variation(self) -> float:
        """Total variation as drawn; noise included."""
        return float(abs(self.cells / self.draws - self.law).sum() / 2)

    @property
    def largest_gap(self) -> Gap:
        """The text with the largest gap, as drawn."""
        shape = (self.instance.vocab_size,) * len(self.lengths)
        return largest_gap(self.law, self.cells / self.draws, shape)

    @property
    def block_efficiency(self) -> float:
        """Mean emission length, tokens per call."""
        return float(self.lengths @ np.arange(1, len(self.lengths) + 1) / max(self.draws, 1))


@dataclass
class Sampler:
    """Draws from a subject; every call advances its own random streams."""

    subject: Subject
    seed: int
    seconds: float = field(default=0.0, init=False)
    draws: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._rng = checks_own_rng(self.seed)
        self._generator = make_generator(self.subject.array, self.seed)

    @property
    def pace(self) -> float:
        """Draws per second of the subject's own time."""
        return self.draws / max(self.seconds, 1e-9)

    def draw(self, sample: Sample, count: int) -> NDArray[np.int64]:
        """Add ``count`` draws to the sample; return the counts of their extended texts alone."""
        drafts = sampled_drafts(sample.instance, count, self._rng)
        started = time.perf_counter()
        emissions = call_plain(self.subject, drafts, self._generator)
        self.seconds += time.perf_counter() - started
        self.draws += count
        cells = extended_cells(sample.instance, emissions.tokens, emissions.lengths, self._rng)
        counts = np.bincount(cells, minlength=len(sample.law))
        sample.cells += counts
        sample.lengths += np.bincount(emissions.lengths - 1, minlength=len(sample.lengths))
        return counts


@dataclass(frozen=True)
class SampledFindings:
    """Outcome of a sampled joint check, with the samples behind it."""

    check: CheckResult
    samples: Mapping[str, Sample]
    smallest_detectable_tv: float
    worst: str | None

    @property
    def total_variation(self) -> float:
        """Lower confidence bound of the total variation, the largest over the samples; 0 where none shows."""
        return max(
            (
                total_variation_interval(s.cells, s.law, alpha=1e-6).lower
                for s in self.samples.values()
                if s.draws
            ),
            default=0.0,
        )


class CrossCheckError(SpecOracleError):
    """Plain sampling contradicts an intercepted law: the interception missed something."""


def require_agreement(subject: Subject, name: str, law: EmissionLaw, *, alpha: float, seed: int) -> None:
    """Raise `CrossCheckError` when `CROSS_CHECK_DRAWS` calls of the untouched code contradict its law."""
    sample = Sample.of(law.instance)
    Sampler(subject, seed).draw(sample, CROSS_CHECK_DRAWS)
    fit = goodness_of_fit_by_g(sample.cells, law.extended().reshape(-1), alpha=alpha)
    if not fit.passed:
        raise CrossCheckError(f"instance {name!r}: {fit}")


def screening(subject: Subject, instances: Mapping[str, Instance], *, alpha: float, seed: int) -> CheckResult:
    """Judge the extended law of one call by the screening of `joint` alone, in a fixed number of draws."""
    sampler = Sampler(subject, seed)
    samples = [Sample.of(instance) for instance in instances.values()]

    def judge() -> CheckResult:
        process = _screened(sampler, samples, alpha=alpha, seconds=math.inf)
        return judged("joint", "the law of one call", process, alpha)

    return first_failure("joint", judge)


def _screened(
    sampler: Sampler, samples: Sequence[Sample], *, alpha: float, seconds: float, batch: int = BATCH
) -> EProcess:
    """Draw from every instance, then by turns where the evidence is strongest and where the draws are fewest.

    Stops when the evidence suffices for ``alpha``, or the subject has taken ``seconds``.
    """
    process = EProcess.against([sample.law for sample in samples])
    for turn in range(len(samples) + FOLLOW_UPS):
        if process.p_value <= alpha or (turn >= len(samples) and sampler.seconds > seconds):
            break
        if turn < len(samples) or turn % 2:
            number = int(np.argmin([sample.draws for sample in samples]))
        else:
            number = int(process.log_e_by_sample.argmax())
        process = process.observe(sampler.draw(samples[number], batch), number)
    return process


def joint(
    subject: Subject, instances: Mapping[str, Instance], *, alpha: float, budget: float, seed: int
) -> SampledFindings:
    """Sample the extended law of one call on every instance; ``budget`` in seconds of the subject's time."""
    sampler = Sampler(subject, seed)
    samples = {name: Sample.of(instance) for name, instance in instances.items()}
    try:
        batch = min(BATCH, _affordable_batch(subject, list(instances.values()), budget, seed))
        process = _screened(
            sampler, list(samples.values()), alpha=alpha / 2, seconds=SCREENING_SHARE * budget, batch=batch
        )
        if process.p_value <= alpha / 2:
            worst = list(samples)[int(process.log_e_by_sample.argmax())]
            detail = f"e-process p-value {process.p_value:.1e} after {process.draws} draws"
            return _lossy(samples, worst, detail)
        fits: dict[str, GoodnessOfFit] = {}
        for name in MAIN_INSTANCES:
            sample = samples[name]
            rate = alpha / 2 / len(MAIN_INSTANCES)
            needed = draws_needed_by_g(TARGET_TV, sample.law, alpha=rate)
            affordable = int((budget - sampler.seconds) * sampler.pace) // (len(MAIN_INSTANCES) - len(fits))
            count = min(needed, max(affordable, batch))
            # The G test takes fresh draws: those of the screening were looked at already.
            fresh = Sample.of(instances[name])
            while fresh.draws < count:
                sampler.draw(fresh, min(10 * BATCH, count - fresh.draws))
            fits[name] = goodness_of_fit_by_g(fresh.cells, fresh.law, alpha=rate)
            samples[name] = fresh
            if not fits[name].passed:
                return _lossy(samples, name, str(fits[name]))
    except ContractError as error:
        return SampledFindings(CheckResult("joint", Status.FAILED, str(error)), samples, np.inf, None)
    except SubjectRaisedError as error:
        return SampledFindings(CheckResult("joint", Status.INCONCLUSIVE, str(error)), samples, np.inf, None)
    return _stands(samples, fits, sampler)


def _affordable_batch(subject: Subject, instances: Sequence[Instance], budget: float, seed: int) -> int:
    """Return how large batches of the screening may be, for all to stay in its share of the budget."""
    pilot = Sampler(subject, seed)
    pilot.draw(Sample.of(instances[0]), _PILOT)
    pilot.seconds, pilot.draws = 0.0, 0  # the first call may compile
    pilot.draw(Sample.of(instances[0]), _PILOT)
    return max(_PILOT, int(SCREENING_SHARE * budget * pilot.pace / len(instances)))


def _lossy(samples: Mapping[str, Sample], name: str, detail: str) -> SampledFindings:
    check = CheckResult("joint", Status.FAILED, f"instance {name!r}: {detail}")
    return SampledFindings(check, samples, np.inf, name)


def _stands(
    samples: Mapping[str, Sample], fits: Mapping[str, GoodnessOfFit], sampler: Sampler
) -> SampledFindings:
    detectable = max(fit.smallest_detectable_tv for fit in fits.values())
    draws = sum(sample.draws for sample in samples.values())
    lengths = np.sum([sample.lengths for sample in samples.values()], axis=0)
    if not lengths[-1] or not lengths[:-1].sum():
        what = "never accepted a whole draft" if not lengths[-1] else "never rejected a draft"
        check = CheckResult("joint", Status.INCONCLUSIVE, what)
    elif detectable > TARGET_TV:
        check = CheckResult(
            "joint",
            Status.INCONCLUSIVE,
            f"{draws} draws find a total variation of {detectable:.3g}, not {TARGET_TV}; "
            f"{sampler.pace:.0f} draws/s, raise --budget",
        )
    else:
        check = CheckResult(
            "joint", Status.PASSED, f"no defect in {draws} draws; finds total variation {detectable:.3g}"
        )
    return SampledFindings(check, samples, detectable, None)
