"""The check `draft-law`: the drafter draws from the q it reports."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.steps import drafts_off, drawn_steps, enumerated_steps, showing
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.results import CheckResult, NoEvidenceError, failed, passed
from spec_oracle.audit.sampling import judged
from spec_oracle.statistics import EProcess

SESSIONS = 500


# WAY @DRAFT_LAW.way(EngineSubject)
def draft_law(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether drafts follow the rows reported with them: enumerated, or drawn as above."""
    cases = showing(subject.cases(context))
    try:
        found = [drafts_off(enumerated_steps(case)) for case in cases]
    except NoEvidenceError:
        seen = [step for case in cases for steps in drawn_steps(case, SESSIONS) for step in steps]
        rows = np.array([row for step in seen for row in step.rows])
        tokens = np.array([token for step in seen for token in step.drafts])
        return judged("draft tokens against the reported q", _evidence(rows, tokens), alpha)
    gap, where = max(found)
    told = f"drafts are off the reported q by a total variation of {gap:.3g}: {where}"
    result = failed(told) if gap > subject.facts.tolerance else passed(told)
    return replace(result, total_variation=gap)


def _evidence(rows: NDArray[np.float64], tokens: NDArray[np.int64]) -> EProcess:
    laws, group = _distinct(rows.round(12))
    vocab = rows.shape[1]
    counts = np.bincount(group * vocab + tokens, minlength=len(laws) * vocab)
    process = EProcess.against(list(laws / laws.sum(axis=1, keepdims=True)))
    for number, drawn in enumerate(counts.reshape(len(laws), vocab)):
        process = process.observe(drawn, number)
    return process


def _distinct(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows, sorted, and the number of each row among them, int [N]."""
    # As `np.unique` over an axis, which compares rows byte by byte and takes ten times as long.
    order = np.lexsort(rows.T)
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[order][1:] != rows[order][:-1]).any(axis=1)
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.cumsum(first) - 1
    return rows[order][first], group
