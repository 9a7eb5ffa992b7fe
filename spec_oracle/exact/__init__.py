"""Exact laws: enumerate every outcome of every decision that code under test makes."""

from spec_oracle.exact.emission import EmissionLaw, Gap, VerdictError, emission_law
from spec_oracle.exact.enumeration import DecisionError, ScriptedDecisions, enumerate_branches

__all__ = [
    "DecisionError",
    "EmissionLaw",
    "Gap",
    "ScriptedDecisions",
    "VerdictError",
    "emission_law",
    "enumerate_branches",
]
