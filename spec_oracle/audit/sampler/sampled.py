"""The law of one call by draws, against exact laws of the target, at stated error rates.

Many instances with few draws come first, watched by one e-process. It may stop at any look, and draw next
where its evidence is strongest: defects that show on one instance only are found there within seconds. Then
one instance after another is drawn often enough for the G test to find any defect of total variation
`TARGET_TV`. Both share the rate of the check evenly.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Sample, Sampler
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import TARGET_TV, CheckResult, Findings, Status, main_instances, never_happened, scope_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.statistics import (
    EProcess,
    GoodnessOfFit,
    draws_needed_by_g,
    goodness_of_fit_by_g,
    split,
    total_variation_interval,
)

BATCH = 1000
FOLLOW_UPS = 32
"""Batches of the screening beyond the first of every instance."""

SCREENING_SHARE = 0.25
"""Share of the time that the screening may take."""

_PILOT = 16


def sampled(code: SamplerCode, context: Context, alpha: float, num_paths: int) -> Findings:
    """Sample the extended law of one call on every instance of the context, within its budget."""
    instances = context.toys(num_paths)
    half = split(alpha, 2)
    sampler = Sampler(code, context.seed)
    samples = {name: Sample.of(instance) for name, instance in instances.items()}
    share = SCREENING_SHARE * context.budget / len(samples)
    first = next(iter(instances.values()))
    batch = Sampler(code, context.seed).most_within(share, first, start=_PILOT, most=BATCH)
    process = screened(
        sampler,
        list(samples.values()),
        alpha=half,
        seconds=SCREENING_SHARE * context.budget,
        batch=batch,
    )
    if process.p_value <= half:
        worst = list(samples)[int(process.log_e_by_sample.argmax())]
        detail = f"e-process p-value {process.p_value:.1e} after {process.draws} draws"
        return _lossy(samples, worst, detail, alpha)
    main = main_instances(samples)
    fits: dict[str, GoodnessOfFit] = {}
    for name in main:
        rate = split(half, len(main))
        needed = draws_needed_by_g(TARGET_TV, samples[name].law, alpha=rate)
        left = (context.budget - sampler.seconds) / (len(main) - len(fits))
        # The G test takes fresh draws: those of the screening were looked at already.
        samples[name] = Sample.of(instances[name])
        sampler.draw_within(left, samples[name], needed, start=min(batch, needed), most=10 * BATCH)
        fits[name] = goodness_of_fit_by_g(samples[name].cells, samples[name].law, alpha=rate)
        if not fits[name].passed:
            return _lossy(samples, name, str(fits[name]), alpha)
    detectable = max(fit.smallest_detectable_tv for fit in fits.values())
    return _findings(samples, _joint(samples, detectable, sampler, alpha), detectable)


def screened(
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


def _lossy(samples: Mapping[str, Sample], worst: str, detail: str, alpha: float) -> Findings:
    draws = sum(sample.draws for sample in samples.values())
    check = CheckResult("joint", Status.FAILED, f"instance {worst!r}: {detail}", alpha, draws)
    return _findings(samples, check, None, worst)


def _joint(samples: Mapping[str, Sample], detectable: float, sampler: Sampler, alpha: float) -> CheckResult:
    draws = sum(sample.draws for sample in samples.values())
    missing = never_happened(sample.lengths for sample in samples.values())
    if missing:
        return CheckResult("joint", Status.INCONCLUSIVE, missing, alpha, draws)
    if detectable > TARGET_TV:
        detail = (
            f"{draws} draws find a total variation of {detectable:.3g}, not {TARGET_TV}; "
            f"{sampler.pace:.0f} draws/s, raise --budget"
        )
        return CheckResult("joint", Status.INCONCLUSIVE, detail, alpha, draws)
    detail = f"no defect in {draws} draws; finds total variation {detectable:.3g}"
    return CheckResult("joint", Status.PASSED, detail, alpha, draws)


def _findings(
    samples: Mapping[str, Sample], check: CheckResult, detectable: float | None, worst: str | None = None
) -> Findings:
    drawn = {name: sample for name, sample in samples.items() if sample.draws}
    return Findings(
        check,
        Evidence.STATISTICAL,
        drawn,
        # The lower confidence bound, the largest over the samples; 0 where none shows.
        total_variation=max(
            (total_variation_interval(s.cells, s.law, alpha=1e-6).lower for s in drawn.values()), default=0.0
        ),
        smallest_detectable_tv=detectable,
        instances={name: sample.instance for name, sample in drawn.items()},
        worst=worst,
        scope=(scope_of("sampled", [sample.instance for sample in drawn.values()], f"{check.draws} draws"),),
    )
