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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.sampling import Sample
from spec_oracle.statistics import EProcess, goodness_of_fit_by_e_process

CLAIM_REPEATS: Final = 2  # How often it is traced again where the defect is too small for samples.

_LOOKS = 5
"""Pilots after which it is said that samples will not suffice."""

_RARE = 1e-9
"""What stands for a probability of zero where the number of samples is planned."""


def confirm(samples: Mapping[str, Sample], rate: float) -> str:
    """Compare uninstrumented samples with traced laws; return a line on what they would detect.

    Code may behave otherwise when its random numbers are traced. One e-process judges all samples. Raises
    `NoEvidenceError` where they contradict a law.
    """
    process = EProcess.against([sample.law for sample in samples.values()])
    for number, sample in enumerate(samples.values()):
        process = process.observe(sample.counts, number)
    fit = goodness_of_fit_by_e_process(process, alpha=rate)
    if not fit.passed:
        worst = list(samples)[int(process.log_e_by_sample.argmax())]
        raise NoEvidenceError(
            f"uninstrumented samples contradict the traced distribution, {worst}: "
            f"p-value {fit.p_value:.1e} after {fit.draws} samples"
        )
    is_enough, detectable = fit.smallest_detectable_tv < 1, fit.detectable
    alone = f"it alone would detect {detectable}" if is_enough else "too few to detect a defect alone"
    return f"an independent run of {fit.draws:,} uninstrumented samples agrees ({alone})"


def borne_out(
    sample: Sample,
    claimed: NDArray[np.float64],
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


def log_ratio(counts: NDArray[np.int64], claimed: NDArray[np.float64], law: NDArray[np.float64]) -> float:
    """Return log of P(counts | claimed) / P(counts | law), nats; minus infinity if ``claimed`` is out."""
    seen = counts > 0
    if (claimed[seen] <= 0).any():
        return -math.inf
    if (law[seen] <= 0).any():
        return math.inf
    return float((counts[seen] * np.log(claimed[seen] / law[seen])).sum())


def draws_needed(claimed: NDArray[np.float64], law: NDArray[np.float64], rate: float) -> float:
    """Return about how many samples decide, whichever law is right: log(1/rate) over the smaller KL."""
    one, other = np.maximum(claimed, _RARE), np.maximum(law, _RARE)
    gains = float((claimed * np.log(one / other)).sum()), float((law * np.log(other / one)).sum())
    return -math.log(rate) / max(min(gains), 1e-300)


def require_repeated(
    find: Callable[[], object], is_same: Callable[[object], bool], until: float = math.inf
) -> int:
    """Trace a defect again that is too small for samples; return how often.

    Once, and more often only before ``until``, in seconds of `time.process_time`. Raises `NoEvidenceError` if
    another distribution is traced, or if the code drew random numbers that cannot be traced.
    """
    for number in range(CLAIM_REPEATS):
        if number and time.process_time() >= until:
            return number
        with entropy_seen() as drawn:
            found = find()
        if drawn:
            raise NoEvidenceError("the code takes random numbers of the operating system; sampled instead")
        if not is_same(found):
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


def describe(draws: int, repeats: int) -> str:
    """Return a line on how a defect was confirmed: by samples, or, if ``repeats``, by tracing it again."""
    if not repeats:
        agree = "they follow what was traced, not the target's distribution"
        return f"{draws:,} uninstrumented samples agree: {agree}"
    times = repeats + 1
    return f"{draws:,} uninstrumented samples are too few for so small a defect; {times} traced runs agree"
