"""Engines that can be handed their noise, row by row beside a rule that decides by the same noise."""

import numpy as np

from spec_oracle.adapters.samplers import RacedEngine
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Findings, NoEvidenceError, Pair, Status
from spec_oracle.audit.sampler.coins import by_race
from spec_oracle.audit.sampler.row_by_row import called_with, paired_findings
from spec_oracle.contracts import Emissions
from verifiers import Drafts


def raced(engine: RacedEngine, context: Context, alpha: float) -> Findings:
    """Compare an engine with the token rule; raises `NoEvidenceError` where that decides nothing."""
    findings = paired_findings(pair_by_race(engine), context, alpha)
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
