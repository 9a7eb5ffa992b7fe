"""The check `draft-law`: the drafter draws from the q it reports."""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.toy_subject import SystemSubject
from spec_oracle.audit.engine.toy_texts import decoded, unseeded
from spec_oracle.audit.results import CheckResult, failed
from spec_oracle.audit.sampling import judged
from spec_oracle.statistics import EProcess

REQUESTS = 20_000


CALLS = 2


# WAY @DRAFT_LAW.way(SystemSubject)
def draft_law(subject: SystemSubject, context: Context) -> CheckResult:
    """Judge whether draft tokens follow the rows that are reported with them, over two calls.

    A token whose row is known has that row as its law given all that came before it, so tokens are grouped
    by row, wherever they were drawn, and the evidence of all rows is one e-process.
    """
    rows, tokens = [], []
    for instance in subject.toys(context).values():
        system = subject.factory(instance, context.seed)
        _, steps = decoded(system, system.start(unseeded(REQUESTS)), REQUESTS, CALLS)
        for step in steps:
            active = step.num_accepted >= 0
            rows.append(step.draft_probs[active].reshape(-1, instance.vocab_size))
            tokens.append(step.draft_tokens[active].reshape(-1))
    reported, drawn = np.concatenate(rows), np.concatenate(tokens)
    wrong = ~(np.isfinite(reported) & (reported >= 0)).all(axis=1)
    wrong |= abs(reported.sum(axis=1) - 1) > 1e-6
    if wrong.any():
        row = reported[np.argmax(wrong)].tolist()
        return failed(f"reported q {row} is no law", alpha=alpha, draws=len(drawn))
    return judged("draft tokens against the reported q", _evidence(reported, drawn), alpha)


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
