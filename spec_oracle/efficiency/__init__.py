"""Exact block efficiency of verifiers, beside what any verifier could reach."""

from spec_oracle.efficiency.figures import Efficiency, Optima, efficiencies
from spec_oracle.efficiency.language_models import PairEfficiency, PromptEfficiency, Summary, pair_efficiency
from spec_oracle.efficiency.sweeps import Sweep, Sweeps, sweeps

__all__ = [
    "Efficiency",
    "Optima",
    "PairEfficiency",
    "PromptEfficiency",
    "Summary",
    "Sweep",
    "Sweeps",
    "efficiencies",
    "pair_efficiency",
    "sweeps",
]
