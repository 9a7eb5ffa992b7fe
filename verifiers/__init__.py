"""Verification rules for speculative decoding: batched, backend-neutral, free of hidden randomness.

A drafted token, 1, of draft probability 3/4 and target probability 1/4 is kept with probability 1/3; when it
is refused the target's surplus, token 0, is emitted in its place:

>>> import numpy as np
>>> import verifiers
>>> tokens = np.ones((9, 1, 1), dtype=int)  # [B, K, L]: nine requests, one path of one token
>>> draft = np.broadcast_to([0.25, 0.75], (9, 1, 1, 2))  # [B, K, L, V]
>>> target = np.broadcast_to([0.75, 0.25], (9, 1, 2, 2))  # [B, K, L+1, V]
>>> decisions = verifiers.numpy_decisions(np.random.default_rng(1))
>>> verdict = verifiers.get("block").verify(verifiers.Drafts.of_paths(tokens, draft, target), decisions)
>>> verdict.num_accepted.tolist()
[0, 1, 0, 1, 0, 0, 1, 0, 0]
>>> verdict.emitted[:2].tolist()  # a correction; an accepted token and a bonus token
[[0, -1], [1, 1]]
"""

from verifiers.errors import InvalidInputError, SpecOracleError
from verifiers.interface import (
    EMPTY,
    ROOT,
    AnyVerifier,
    DecisionSource,
    Drafts,
    ModelBound,
    Path,
    Paths,
    Rows,
    Siblings,
    State,
    StatefulVerifier,
    Traits,
    Verdict,
    Verifier,
    accepts_of,
    drafting_of,
    traits_of,
)
from verifiers.registry import get, names
from verifiers.sampling import SamplingDecisions, numpy_decisions, replayed_decisions, torch_decisions

__distribution__ = "spec-oracle"  # another package on PyPI is called verifiers, too

__all__ = [
    "EMPTY",
    "ROOT",
    "AnyVerifier",
    "DecisionSource",
    "Drafts",
    "InvalidInputError",
    "ModelBound",
    "Path",
    "Paths",
    "Rows",
    "SamplingDecisions",
    "Siblings",
    "SpecOracleError",
    "State",
    "StatefulVerifier",
    "Traits",
    "Verdict",
    "Verifier",
    "accepts_of",
    "drafting_of",
    "get",
    "names",
    "numpy_decisions",
    "replayed_decisions",
    "torch_decisions",
    "traits_of",
]
