"""Whether two samples are of one distribution, where neither distribution is known."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Effort, Experiment
from spec_oracle.audit.results import Findings, How, LawResult, Measured, Remarks, Status
from spec_oracle.statistics import homogeneity, smallest_detectable_tv_by_homogeneity

USUAL_CELLS: Final = 100  # Of outcomes that are compared, by which their number is planned.

Table: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], tuple[NDArray[np.int64], Sequence[Any]]]
"""Counts two samples in cells of its choice: int [2, C], and the outcome of each cell."""


def by_outcome(first: Sequence[Any], second: Sequence[Any]) -> tuple[NDArray[np.int64], Sequence[Any]]:
    """Return counts int [2, C] of two samples by outcome, and the outcomes in an order of their own."""
    tallies = Counter(first), Counter(second)
    every = sorted(tallies[0] | tallies[1], key=repr)
    return np.array([[tally[one] for one in every] for tally in tallies], dtype=np.int64), every


def compared(
    own: Experiment,
    reference: Experiment,
    context: Context,
    effort: Effort,
    *,
    table: Table = by_outcome,
    cells: int = USUAL_CELLS,
) -> LawResult:
    """Say whether outcomes are distributed as those of a reference, where neither distribution is known.

    As many of each are run in turn as detect ``effort.tv`` between so many ``cells``, or as the budget
    allows; ``table`` counts them.
    """
    sides, found, started = (own, reference), (list[Any](), list[Any]()), time.monotonic()
    needed, size = _needed_by_homogeneity(effort.wanted or effort.tv, cells, context.rate), effort.pilot
    while (before := len(found[1])) < needed:
        for some, side in zip(found, sides, strict=True):
            some.extend(side.many(min(size, needed - before)))
        if len(found[1]) == before or time.monotonic() - started > effort.share * context.budget:
            break
        size = min(2 * size, effort.look)
    counts, outcomes = table(*found)
    fit = homogeneity(*counts, alpha=context.rate)
    what = f"{own.what}: {fit.draws[0]:,} samples"
    tv = fit.smallest_detectable_tv
    least = f" (a total variation of {tv:.2g} would show)" if tv < 1 else ""
    status, detail = Status.PASSED, f"{what} are distributed as {reference.what}{least}"
    if not fit.passed:
        shares = counts / counts.sum(axis=1, keepdims=True)
        worst = int(abs(shares[0] - shares[1]).argmax())
        status, detail = Status.FAILED, f"{what} are distributed otherwise than {reference.what}"
        if outcomes:
            detail += f"; {shares[0, worst]:.3g} of them are {own.shown(outcomes[worst])}, not "
            detail += f"{shares[1, worst]:.3g}"
    elif tv > effort.tv:
        status, detail = Status.INCONCLUSIVE, f"{what} are too few to show a defect{least}; raise --budget"
    measured = Measured(context.rate, fit.draws[0], None, own.tokens, tv if tv < 1 else None)
    findings = Findings(smallest_detectable_tv=tv)
    return LawResult(
        "", status, detail, How.SAMPLED, measured, Remarks((f"{own.what}: {fit}",)), findings=findings
    )


def _needed_by_homogeneity(tv: float, cells: int, rate: float) -> int:
    count = 64
    while smallest_detectable_tv_by_homogeneity((count, count), cells, alpha=rate) > tv:
        count = count * 5 // 4
    return count
