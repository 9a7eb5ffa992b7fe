"""Exact laws, by running code under test on every outcome of each of its random decisions."""

from spec_oracle.exact.call import VerdictError
from spec_oracle.exact.completions import Gap
from spec_oracle.exact.emission import EmissionLaw, emission_law
from spec_oracle.exact.enumeration import DecisionError, ScriptedDecisions, enumerate_branches
from spec_oracle.exact.text import DecodedLaw, decoded_law, tokens_per_call

__all__ = [
    "DecisionError",
    "DecodedLaw",
    "EmissionLaw",
    "Gap",
    "ScriptedDecisions",
    "VerdictError",
    "decoded_law",
    "emission_law",
    "enumerate_branches",
    "tokens_per_call",
]
