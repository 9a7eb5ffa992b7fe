"""The check `draft-law`: the drafter samples from the q that it reports.

A drafted token whose q is known has that q as its distribution given all that came before it, so that samples
are grouped by q, wherever they were drawn.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.engine.rounding import Rounding, rounding_of
from spec_oracle.audit.engine.steps import SeenStep, drafts_off, sampled_steps
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, not_asked, passed
from spec_oracle.audit.rounds import judge_process
from spec_oracle.contracts.engine import ROW_TOLERANCE
from spec_oracle.statistics import EProcess


def draft_law(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether drafts follow the q reported with them, over two calls: traced, or sampled."""
    cases = subject.cases(context, "start")
    if not cases:
        return not_asked("needs the optional method start(); see docs/guide/audit-your-engine.md")
    rounding = rounding_of(subject, context)
    return first_that_works([partial(_traced, cases, rounding), partial(_sampled, cases, context)])


def _traced(cases: Sequence[Case], rounding: Rounding) -> CheckResult:
    gap, where = max(map(drafts_off, cases))
    if not rounding.explains(gap):
        detail = f"{where}: drafts do not follow the reported q, total variation {gap:.3g}"
        if rounding.may_explain(gap):
            return inconclusive(f"{detail}; {rounding.doubt}", how=How.PROVEN, notes=rounding.notes)
        return failed(detail, total_variation=gap, how=How.PROVEN)
    detail = f"drafts follow the reported q up to a total variation of {gap:.1e}"
    return passed(detail, total_variation=gap, how=How.PROVEN)


def _sampled(cases: Sequence[Case], context: Context) -> CheckResult:
    drafted = _by_row(step for case in cases for steps in sampled_steps(case, context) for step in steps)
    for row, counts in drafted.items():
        if min(row) < 0 or not abs(sum(row) - 1) <= ROW_TOLERANCE:
            return failed(f"the reported q {list(row)} is no distribution", how=How.SAMPLED)
        if counts[len(row) :].any():
            return failed(f"a draft token is outside 0..{len(row) - 1}, the ids of its q", how=How.SAMPLED)
    process = EProcess.against([np.array(row) / sum(row) for row in drafted])
    for number, (row, counts) in enumerate(drafted.items()):
        process = process.observe(counts[: len(row)], number)
    return judge_process("draft tokens, against the reported q", process, context.rate)


def _by_row(steps: Iterable[SeenStep]) -> dict[tuple[float, ...], NDArray[np.int64]]:
    """Return how often each token was drafted, by the q reported with it; the last count is of other ids."""
    drafted: dict[tuple[float, ...], NDArray[np.int64]] = {}
    for step in steps:
        for token, row in zip(step.drafts, step.rows, strict=True):
            if row not in drafted:
                drafted[row] = np.zeros(len(row) + 1, dtype=np.int64)
            drafted[row][token if 0 <= token < len(row) else -1] += 1
    return drafted
