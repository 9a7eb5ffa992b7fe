"""Draws watched by an e-process, round by round, until the evidence or the rounds run out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spec_oracle.audit.plain import ContractError, SubjectRaisedError
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.statistics import EProcess, goodness_of_fit_by_e_process, total_variation_interval


def watched(
    check: str,
    what: str,
    laws: Sequence[npt.ArrayLike],
    rounds: Iterable[Sequence[npt.NDArray[np.int64]]],
    *,
    alpha: float,
) -> CheckResult:
    """Judge whether samples follow their laws, [V_i] each; stops at the first round that settles it.

    Every round brings new outcomes int [N] (not counts) for each of the samples, independent of each other
    under the laws. A right subject fails with probability ``alpha`` at most, however many rounds there are;
    ``what`` completes "the law of ...". Contract violations fail; exceptions of the subject are inconclusive.
    """
    process = EProcess.against(laws)
    try:
        for outcomes in rounds:
            for sample, drawn in enumerate(outcomes):
                counts = np.bincount(drawn, minlength=len(process.laws[sample]))
                process = process.observe(counts, sample)
            if process.p_value <= alpha:
                break
    except ContractError as error:
        return CheckResult(check, Status.FAILED, str(error), alpha, process.draws)
    except SubjectRaisedError as error:
        return CheckResult(check, Status.INCONCLUSIVE, str(error), alpha, process.draws)
    return judged(check, what, process, alpha)


def judged(check: str, what: str, process: EProcess, alpha: float) -> CheckResult:
    """Return the result of an e-process as it stands; without a draw it is inconclusive."""
    if process.draws == 0:
        return CheckResult(check, Status.INCONCLUSIVE, f"nothing was drawn of {what}", alpha)
    fit = goodness_of_fit_by_e_process(process, alpha=alpha)
    bounds = [
        total_variation_interval(counts, law, alpha=alpha).lower
        for counts, law in zip(process.counts, process.laws, strict=True)
        if counts.any()
    ]
    status = Status.PASSED if fit.passed else Status.FAILED
    return CheckResult(check, status, f"{what}: {fit}", alpha, process.draws, max(bounds))


def first_failure(check: str, *parts: Callable[[], CheckResult]) -> CheckResult:
    """Run the parts of a check in order; return the first that does not pass, else the last, draws added up.

    Contract violations fail; exceptions of the subject are inconclusive.
    """
    draws, result = 0, CheckResult(check, Status.NOT_RUN, "nothing to run")
    for part in parts:
        try:
            result = part()
        except ContractError as error:
            result = CheckResult(check, Status.FAILED, str(error))
        except SubjectRaisedError as error:
            result = CheckResult(check, Status.INCONCLUSIVE, str(error))
        draws += result.draws
        if result.status is not Status.PASSED:
            break
    return replace(result, draws=draws)
