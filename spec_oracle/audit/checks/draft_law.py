"""The check `draft-law`: the drafter draws from the q it reports."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed
from spec_oracle.audit.evidence.engine_steps import drafts_off, drawn_steps, enumerated_steps, showing
from spec_oracle.audit.evidence.findings import NoEvidenceError
from spec_oracle.audit.evidence.watched import judged
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.statistics import EProcess
from spec_oracle.systems.texts import decoded, unseeded

REQUESTS = 20_000
SESSIONS = 500
CALLS = 2


DRAFT_LAW = Check("draft-law", "does the drafter draw from the q it reports?", Fraction(10, 100))
DRAFT_LAW.does_not_apply(
    "it does not draft: the audit does", VerifierSubject, FunctionSubject, UniformsSubject, KeyedSubject
)
DRAFT_LAW.does_not_apply("drafts and their rows stay inside the server", ServerSubject)


@DRAFT_LAW.way(SystemSubject)
def _by_steps(subject: SystemSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether draft tokens follow the rows that are reported with them, over two calls.

    A token whose row is known has that row as its law given all that came before it, so tokens are grouped
    by row, wherever they were drawn, and the evidence of all rows is one e-process.
    """
    rows, tokens = [], []
    for instance in subject.toys(bench).values():
        system = subject.factory(instance, bench.seed)
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


@DRAFT_LAW.way(EngineSubject)
def _by_steps_of_engines(subject: EngineSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether drafts follow the rows reported with them: enumerated, or drawn as above."""
    cases = showing(subject.cases(bench))
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
