"""Draws watched by an e-process, round by round, until the evidence or the rounds run out."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.statistics import EProcess, goodness_of_fit_by_e_process, total_variation_interval


def watched(
    what: str,
    laws: Sequence[npt.ArrayLike],
    rounds: Iterable[Sequence[npt.NDArray[np.int64]]],
    *,
    alpha: float,
) -> CheckResult:
    """Judge whether samples follow their laws, [V_i] each; stops at the first round that settles it.

    Every round brings new outcomes int [N] (not counts) for each of the samples, independent of each other
    under the laws. A right subject fails with probability ``alpha`` at most, however many rounds there are;
    ``what`` completes "the law of ...".
    """
    process = EProcess.against(laws)
    for outcomes in rounds:
        for sample, drawn in enumerate(outcomes):
            counts = np.bincount(drawn, minlength=len(process.laws[sample]))
            process = process.observe(counts, sample)
        if process.p_value <= alpha:
            break
    return judged(what, process, alpha)


def judged(what: str, process: EProcess, alpha: float) -> CheckResult:
    """Return the result of an e-process as it stands; without a draw it is inconclusive."""
    if process.draws == 0:
        return CheckResult("", Status.INCONCLUSIVE, f"nothing was drawn of {what}", alpha)
    fit = goodness_of_fit_by_e_process(process, alpha=alpha)
    bounds = [
        total_variation_interval(counts, law, alpha=alpha).lower
        for counts, law in zip(process.counts, process.laws, strict=True)
        if counts.any()
    ]
    status = Status.PASSED if fit.passed else Status.FAILED
    return CheckResult("", status, f"{what}: {fit}", alpha, process.draws, max(bounds))
