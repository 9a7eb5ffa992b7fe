"""Samples of a server in bins of known probability, and what a decision about them comes to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.results import CheckResult, How, Status
from spec_oracle.audit.sampling import Decision
from spec_oracle.contracts.server import ServerError

Bins: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Counts [C], their law [C], and its slack [C]."""


@dataclass
class Binned:
    """What `judge_looks` samples: ``more(count)`` asks the server, ``bins()`` counts all samples so far.

    Sampling ends with the server; raises `ServerError` where it is gone before the first sample.
    """

    more: Callable[[int], object]
    bins: Callable[[], Bins]
    ended: str = ""
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.counts, self.law, self.slack = self.bins()

    def draw(self, count: int) -> None:
        """Add that many samples."""
        try:
            self.more(count)
        except ServerError as error:
            if not self.counts.any():
                raise
            self.ended = str(error)
        self.counts, self.law, self.slack = self.bins()


def result_of(what: str, decision: Decision[Any], coarsest: float, rate: float) -> CheckResult:
    """Return the result of a decision; it passes if it would have detected a TV of ``coarsest``."""
    status, detectable = Status.PASSED, decision.detectable_tv
    seen = f"{decision.draws:,} samples are as expected; a total variation of {detectable:.2g} would show"
    if not decision.passed:
        status, seen = Status.FAILED, decision.reason
    elif decision.ended:
        status, seen = Status.INCONCLUSIVE, f"{seen}; ended early: {decision.ended}"
    elif detectable > coarsest:
        status, seen = Status.INCONCLUSIVE, f"{seen}, not {coarsest:.2g}; raise --budget or --requests"
    scope = (f"{what}: {decision.statistics}",)
    return CheckResult("", status, f"{what}: {seen}", rate, decision.draws, how=How.SAMPLED, scope=scope)
