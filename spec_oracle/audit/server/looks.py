"""Samples of a server, looked at while they come: an e-process may stop them early, a G test judges them all."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.results import CheckResult, How, Status
from spec_oracle.contracts.server import ServerError
from spec_oracle.statistics import DEFAULT_MISS, GoodnessOfFit, goodness_of_fit_by_g, log_e_value, split

Sample: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Counts [C], their law [C], and its slack [C]."""


@dataclass(frozen=True)
class Looks:
    """How a test of samples ended: the fit, and why sampling ended early, "" if it did not."""

    fit: GoodnessOfFit
    ended: str = ""

    def result(self, what: str, coarsest: float) -> CheckResult:
        """Return the result of a check; it passes if it would have detected a TV of ``coarsest``."""
        fit, status, ended = self.fit, Status.PASSED, ""
        if not fit.passed:
            status = Status.FAILED
        elif self.ended:
            status, ended = Status.INCONCLUSIVE, f"; ended early: {self.ended}"
        elif fit.smallest_detectable_tv > coarsest:
            status, ended = Status.INCONCLUSIVE, f", not {coarsest:.3g}; raise --budget or --requests"
        return CheckResult(
            "", status, f"{what}: {fit}{ended}", 2 * fit.alpha, fit.draws, how=How.SAMPLED
        )


def looked_at(
    draw: Callable[[int], object],
    sample: Callable[[], Sample],
    *,
    count: int,
    seconds: float,
    alpha: float,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Looks:
    """Draw until there are ``count`` samples or the time is up; stop at once where the evidence suffices.

    Half of ``alpha`` is for an e-process at every look, the other half for the G test of all samples in the
    end. Sampling ends early with the server. Raises `ServerError` where it is gone before the first look.
    """
    half, start, ended = split(alpha, 2), time.monotonic(), ""
    counts, law, slack = sample()
    before, step = counts.sum(), effort.SERVER_PILOT
    while counts.sum() < count and (not counts.any() or time.monotonic() - start < seconds):
        try:
            draw(int(min(step, count - counts.sum())))
        except ServerError as error:
            if not counts.any():
                raise
            ended = str(error)
            break
        counts, law, slack = sample()
        progress(int(counts.sum()), count)
        log_e = float(log_e_value(counts, law, slack))
        if log_e >= -math.log(half):
            return Looks(_found(counts, log_e, half))
        pace = (counts.sum() - before) / (time.monotonic() - start)
        step = max(effort.SERVER_PILOT, int(effort.SERVER_LOOK_SECONDS * pace))
    return Looks(goodness_of_fit_by_g(counts, law, alpha=half, slack=slack), ended)


def _found(counts: NDArray[np.int64], log_e: float, alpha: float) -> GoodnessOfFit:
    """Return the fit of an e-process that has found a defect."""
    return GoodnessOfFit(
        test="e-process",
        statistic=log_e,
        degrees_of_freedom=len(counts) - 1,
        p_value=math.exp(-log_e),
        alpha=alpha,
        miss=DEFAULT_MISS,
        draws=int(counts.sum()),
        smallest_detectable_tv=math.inf,
        off_support=(),
    )
