"""Uninstrumented samples confirm what was traced, right or wrong, before it is reported.

Right code may be traced to a wrong distribution if one of its random numbers cannot be seen: that number is
then taken for certain. So a claimed defect is confirmed at its own size, by Wald's
sequential probability ratio test (Annals of Mathematical Statistics 16, 1945): if the target's distribution
is right, the likelihood ratio of the claimed one ever reaches 1/rate with a chance of at most ``rate``.

How many samples tell a fair coin from one that was traced to come up heads every time?

>>> print(f"{draws_needed(np.array([1.0, 0.0]), np.array([0.5, 0.5]), 1e-6):.0f}")
20
>>> log_ratio(np.array([19, 1]), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
-inf
"""

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final
from unittest import mock

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit import effort as shares
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Effort, Sample, TracedExperiment, listed
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.sampling import calls_within, draw_within, evidence
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.completions import distance
from spec_oracle.statistics import draws_needed_by_joint_e_process, goodness_of_fit_by_e_process

CLAIM_REPEATS: Final = 2  # How often it is traced again where the defect is too small for samples.

_LOOKS = 5
"""Pilots after which it is said that samples will not suffice."""

_RARE = 1e-9
"""What stands for a probability of zero where the number of samples is planned."""

_SAME: Final = 1e-9
"""The total variation up to which two traces are the same."""


class UndecidedError(SpecOracleError):
    """Samples are too few to say whether a traced deviation is a defect; the message says how few."""


def agreed(traced: Sequence[TracedExperiment], context: Context, effort: Effort) -> str:
    """Compare uninstrumented samples with right traces; return a line on what they would detect.

    Code may behave otherwise when its random numbers are traced. Raises `NoEvidenceError` where samples
    contradict a trace.
    """
    some = [one for one in traced if one.experiment.decides or effort.screens_all] or traced
    samples = {one.experiment.what: Sample(one.experiment, listed(one.traced.law)) for one in some}
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
    return confirm(_in_one_call(samples, effort, seconds), context.rate)


def _in_one_call(samples: Mapping[str, Sample], effort: Effort, seconds: float) -> dict[str, Sample]:
    """Return samples of one call each, as many at most: several calls may depend on each other."""
    again = {what: sample.afresh() for what, sample in samples.items()}
    sizes: dict[tuple[str, str], int] = {}  # one measurement for experiments of one size and kind
    for what, sample in again.items():
        kind = sample.experiment.size, sample.experiment.group
        if kind not in sizes:
            drawn = int(samples[what].counts.sum())
            sizes[kind] = calls_within(sample, seconds, start=effort.pilot, most=drawn)
        sample.draw(sizes[kind])
    return again


def confirm(samples: Mapping[str, Sample], rate: float) -> str:
    """Compare samples with traced laws, all by one e-process; result and errors as of `agreed`."""
    process = evidence([*samples.values()])
    fit = goodness_of_fit_by_e_process(process, alpha=rate)
    if not fit.passed:
        worst = list(samples)[int(process.log_e_by_sample.argmax())]
        raise NoEvidenceError(
            f"uninstrumented samples contradict the traced distribution, {worst}: "
            f"p-value {fit.p_value:.1e} after {fit.draws} samples"
        )
    tv = fit.smallest_detectable_tv
    alone = (
        f"it alone would detect a total variation of {tv:.2g}"
        if tv < 1
        else "too few to detect a defect alone"
    )
    return f"an independent run of {fit.draws:,} uninstrumented samples agrees ({alone})"


def confirmed(found: TracedExperiment, context: Context, effort: Effort, due: float = math.inf) -> str:
    """Confirm a traced defect by samples; return a line on how it was confirmed.

    Where samples are too few, it is traced again, more than once before ``due`` only. Raises
    `NoEvidenceError` where samples contradict it, `UndecidedError` where they alone decide and are too few.
    """
    experiment, claim = found.experiment, found.traced.law
    cells = listed({**dict.fromkeys(claim, 0.0), **experiment.expected})
    as_traced = replace(experiment, many=found.traced.many or experiment.many)
    sample, rate = Sample(as_traced, cells), shares.CLAIM_PART * context.rate
    claimed = np.array([*(claim.get(one, 0.0) for one in cells.outcomes), 0.0])
    seconds = shares.CLAIM_SHARE * context.budget
    is_confirmed = borne_out(
        sample, claimed, rate=rate, seconds=seconds, pilot=effort.pilot, most=effort.most
    )
    drawn = int(sample.counts.sum())
    if is_confirmed:
        agree = "they follow what was traced, not the target's distribution"
        return f"{drawn:,} uninstrumented samples agree: {agree}"
    found.require_decision()
    if experiment.is_conditional:
        needed = draws_needed(claimed, sample.law, rate)
        more = 10 * math.ceil(1.5 * needed * sample.seconds / max(drawn, 1) / shares.CLAIM_SHARE / 10)
        raise UndecidedError(
            f"{drawn:,} samples neither confirm nor refute it; about {needed:,.0f} would (--budget {more:,})"
        )
    times = 1 + require_repeated(found, due)
    return f"{drawn:,} uninstrumented samples are too few for so small a defect; {times} traced runs agree"


def borne_out(
    sample: Sample,
    claimed: Floats,
    *,
    rate: float,
    seconds: float,
    pilot: int,
    most: int,
) -> bool:
    """Whether samples [C] decide for the ``claimed`` distribution [C], against the expected one.

    Raises `NoEvidenceError` if they decide against the claim. False if ``seconds`` do not suffice: a defect
    that would take longer gets a few times ``pilot`` samples only. A call takes ``most`` samples at most.
    """
    bound, size, runs, pace = -math.log(rate), pilot, 0, 0.0
    while True:
        before = sample.seconds
        sample.draw(size)
        runs += size
        drawn = int(sample.counts.sum())
        evidence = log_ratio(sample.counts, claimed, sample.law)
        if evidence >= bound:
            return True
        if evidence <= -bound:
            raise NoEvidenceError(
                f"{drawn:,} uninstrumented samples contradict the traced distribution; sampled instead"
            )
        pace = max(pace, size / max(sample.seconds - before, 1e-9))  # a busy machine slows some of them
        left = (seconds - sample.seconds) * pace
        outcomes = (runs + left) * max(drawn, 1) / runs  # not every run has one
        is_short = runs > _LOOKS * pilot and outcomes < draws_needed(claimed, sample.law, rate)
        if left < 1 or is_short:
            return False
        size = int(max(min(2 * size, most, left), 1))


def log_ratio(counts: Integers, claimed: Floats, law: Floats) -> float:
    """Return log of P(counts | claimed) / P(counts | law), nats; minus infinity if ``claimed`` is out."""
    seen = counts > 0
    if (claimed[seen] <= 0).any():
        return -math.inf
    if (law[seen] <= 0).any():
        return math.inf
    return float((counts[seen] * np.log(claimed[seen] / law[seen])).sum())


def draws_needed(claimed: Floats, law: Floats, rate: float) -> float:
    """Return about how many samples decide, whichever law is right: log(1/rate) over the smaller KL."""
    one, other = np.maximum(claimed, _RARE), np.maximum(law, _RARE)
    gains = float((claimed * np.log(one / other)).sum()), float((law * np.log(other / one)).sum())
    return -math.log(rate) / max(min(gains), 1e-300)


def require_repeated(found: TracedExperiment, until: float = math.inf) -> int:
    """Trace a defect again that is too small for samples; return how often.

    Once, and more often only before ``until``, in seconds of `time.process_time`. Raises `NoEvidenceError` if
    another distribution is traced, or if the code drew random numbers that cannot be traced.
    """
    for number in range(CLAIM_REPEATS):
        if number and time.process_time() >= until:
            return number
        with entropy_seen() as drawn:
            again = found.experiment.traced(shares.ENGINE_RUNS, math.inf)
        if drawn:
            raise NoEvidenceError("the code takes random numbers of the operating system; sampled instead")
        if distance(again.law, found.traced.law) > _SAME:
            raise NoEvidenceError("traced twice, it came to two distributions; sampled instead")
    return CLAIM_REPEATS


@contextmanager
def entropy_seen() -> Iterator[list[int]]:
    """Count the bytes that Python code takes from the operating system's entropy; yields their list."""
    drawn: list[int] = []

    def counting(function: Callable[..., bytes]) -> Callable[..., bytes]:
        def counted(size: int, *arguments: object) -> bytes:
            drawn.append(size)
            return function(size, *arguments)

        return counted

    with ExitStack() as stack:
        for place, name in ((os, "urandom"), (os, "getrandom"), (random, "_urandom")):
            if hasattr(place, name):
                stack.enter_context(mock.patch.object(place, name, counting(getattr(place, name))))
        yield drawn
