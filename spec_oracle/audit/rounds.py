"""Rounds of samples against known distributions: one e-process, which may stop at any round.

How many samples notice that a sampler of three tokens is off by a total variation of 0.02, with one false
alarm in a million? A larger defect shows long before:

>>> from spec_oracle.statistics import draws_needed_by_g
>>> law, wrong = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
>>> needed = draws_needed_by_g(0.02, law, alpha=1e-6)
>>> rng = np.random.default_rng(0)
>>> judge_rounds("tokens", [law], [[rng.choice(3, needed, p=law)]], alpha=1e-6).detail
'tokens: 42,759 samples are as expected (a total variation of 0.022 would show)'
>>> judge_rounds("tokens", [law], ([rng.choice(3, 500, p=wrong)] for _ in range(100)), alpha=1e-6).detail
'tokens: 500 samples contradict the expected distribution by at least 0.0031 in total variation'
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spec_oracle.audit.results import CheckResult, How, Status, inconclusive, passed
from spec_oracle.audit.sampling import contradiction
from spec_oracle.statistics import (
    EProcess,
    goodness_of_fit_by_e_process,
    total_variation_interval,
)


def judge_rounds(
    what: str,
    laws: Sequence[npt.ArrayLike],
    rounds: Iterable[Sequence[npt.NDArray[np.int64]]],
    *,
    alpha: float,
    named: Callable[[int], str] | None = None,
    admitted: float | None = None,
) -> CheckResult:
    """Judge whether samples follow their laws, [V_i] each; stops at the first round that shows they do not.

    A total variation up to ``admitted`` is on record: then it stops once the samples show a larger one.
    Every round brings new outcomes int [N] (not counts) for each of the samples, independent of each other
    under the laws. A right subject fails with probability ``alpha`` at most, however many rounds there are;
    ``what`` names the outcomes, in the plural, ``named`` one of them by its index.
    """
    process = EProcess.against(laws)
    for outcomes in rounds:
        for sample, drawn in enumerate(outcomes):
            counts = np.bincount(drawn, minlength=len(process.laws[sample]))
            process = process.observe(counts, sample)
        if process.p_value <= alpha and (admitted is None or lower_bound(process, alpha) > admitted):
            break
    return judge_process(what, process, alpha, named)


def judge_process(
    what: str, process: EProcess, alpha: float, named: Callable[[int], str] | None = None
) -> CheckResult:
    """Return the result of an e-process as it stands; without a sample it is inconclusive."""
    if process.draws == 0:
        return inconclusive(f"{what}: nothing could be sampled", alpha=alpha)
    fit, bound = goodness_of_fit_by_e_process(process, alpha=alpha), lower_bound(process, alpha)
    scope = (f"{what}: {fit}",)
    result = passed("", how=How.SAMPLED, alpha=alpha, draws=fit.draws, total_variation=bound, scope=scope)
    if fit.passed:
        tv = fit.smallest_detectable_tv
        least = f"a total variation of {tv:.2g} would show" if tv < 1 else "too few to show a defect"
        return replace(result, detail=f"{what}: {fit.draws:,} samples are as expected ({least})")
    size = f" by at least {bound:.2g} in total variation" if bound > 0 else ""
    worst = f"; {_largest_gap(process, named)}" if named else ""
    return replace(result, status=Status.FAILED, detail=f"{what}: {contradiction(fit)}{size}{worst}")


def lower_bound(process: EProcess, alpha: float) -> float:
    """Return a lower confidence bound of the largest total variation of the samples."""
    return max(
        total_variation_interval(counts, law, alpha=alpha).lower
        for counts, law in zip(process.counts, process.laws, strict=True)
        if counts.any()
    )


def _largest_gap(process: EProcess, named: Callable[[int], str]) -> str:
    """Name the outcome whose share of the samples is farthest from its probability."""
    gaps = []
    for counts, law in zip(process.counts, process.laws, strict=True):
        if counts.any():
            shares = counts / counts.sum()
            cell = int(abs(shares - law).argmax())
            gaps.append((abs(shares[cell] - law[cell]), cell, float(shares[cell]), float(law[cell])))
    _, cell, share, expected = max(gaps)
    return f"{named(cell)} in {share:.2%} of them, {expected:.2%} expected"
