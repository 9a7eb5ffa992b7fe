"""Exact block efficiency of verifiers, beside what any verifier could reach."""

from spec_oracle.efficiency.figures import Efficiency, Optima, Sweep, efficiencies, sweeps
from spec_oracle.efficiency.trees import DraftTrees

__all__ = [
    "DraftTrees",
    "Efficiency",
    "Optima",
    "Sweep",
    "efficiencies",
    "sweeps",
]
