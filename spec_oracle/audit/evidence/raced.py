"""Engines that can be handed their noise, row by row beside a rule that decides by the same noise."""

import numpy as np

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.coins import by_race
from spec_oracle.audit.evidence.findings import Findings, NoEvidenceError, Pair
from spec_oracle.audit.evidence.row_by_row import called_with, paired_findings
from spec_oracle.audit.results import Status
from spec_oracle.engines import RacedEngine
from spec_oracle.plain import Emissions
from verifiers import Drafts


def raced(engine: RacedEngine, bench: Bench, alpha: float) -> Findings:
    """Compare an engine with the token rule; raises `NoEvidenceError` where that decides nothing."""
    findings = paired_findings(pair_by_race(engine), bench, alpha)
    if findings.joint.status is Status.INCONCLUSIVE:
        raise NoEvidenceError(findings.joint.detail)
    return findings


def pair_by_race(engine: RacedEngine) -> Pair:
    """Return the pair of an engine and the token rule, decided by the same coins and the same clocks."""

    def pair(drafts: Drafts, rng: np.random.Generator) -> tuple[Emissions, Emissions]:
        coins = rng.random((drafts.batch, drafts.draft_length))
        times = rng.standard_exponential((drafts.batch, drafts.vocab_size))
        expected = by_race("token", drafts, coins, lambda _tau: times, reads_draft=engine.reads_draft)
        return called_with(engine.with_noise, drafts, coins, times), expected

    return pair
