"""Verification rules for speculative decoding: batched, backend-neutral, free of hidden randomness.

>>> import verifiers
>>> verifiers.get("block")
BlockVerifier()
"""

from verifiers.errors import InvalidInputError, SpecOracleError
from verifiers.interface import (
    AnyVerifier,
    DecisionSource,
    Drafting,
    Drafts,
    ModelBound,
    State,
    StatefulVerifier,
    Verdict,
    Verifier,
    drafting_of,
)
from verifiers.registry import get, names
from verifiers.sampling import SamplingDecisions, numpy_decisions, replayed_decisions, torch_decisions

__distribution__ = "spec-oracle"  # another package on PyPI is called verifiers, too

__all__ = [
    "AnyVerifier",
    "DecisionSource",
    "Drafting",
    "Drafts",
    "InvalidInputError",
    "ModelBound",
    "SamplingDecisions",
    "SpecOracleError",
    "State",
    "StatefulVerifier",
    "Verdict",
    "Verifier",
    "drafting_of",
    "get",
    "names",
    "numpy_decisions",
    "replayed_decisions",
    "torch_decisions",
]
