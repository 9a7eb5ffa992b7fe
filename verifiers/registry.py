"""Verifiers by name."""

from verifiers.errors import InvalidInputError, unknown
from verifiers.interface import AnyVerifier
from verifiers.rules.balanced_multipath_block import BalancedMultipathBlockVerifier
from verifiers.rules.block import BlockVerifier
from verifiers.rules.block_transport import BlockTransportVerifier
from verifiers.rules.canonical import CanonicalVerifier
from verifiers.rules.global_resolution import GlobalResolutionVerifier
from verifiers.rules.greedy_block import GreedyBlockVerifier
from verifiers.rules.greedy_multipath_block import GreedyMultipathBlockVerifier
from verifiers.rules.greedy_multipath_carry import GreedyMultipathCarryVerifier
from verifiers.rules.k_seq import KSeqVerifier
from verifiers.rules.lookahead_multipath_block import LookaheadMultipathBlockVerifier
from verifiers.rules.naive import NaiveVerifier
from verifiers.rules.nss import NssVerifier
from verifiers.rules.recursive_rejection import RecursiveRejectionVerifier
from verifiers.rules.recursive_rejection_distinct import RecursiveRejectionDistinctVerifier
from verifiers.rules.sample_and_match import SampleAndMatchVerifier
from verifiers.rules.token import TokenVerifier
from verifiers.rules.top_draft import TopDraftVerifier
from verifiers.rules.traversal import TraversalVerifier

_REGISTRY: dict[str, AnyVerifier] = {
    "token": TokenVerifier(),
    "block": BlockVerifier(),
    "sample_and_match": SampleAndMatchVerifier(),
    "nss": NssVerifier(),
    "naive": NaiveVerifier(),
    "recursive_rejection": RecursiveRejectionVerifier(),
    "recursive_rejection_distinct": RecursiveRejectionDistinctVerifier(),
    "k_seq": KSeqVerifier(),
    "canonical": CanonicalVerifier(),
    "top_draft": TopDraftVerifier(),
    "traversal": TraversalVerifier(),
    "greedy_multipath_block": GreedyMultipathBlockVerifier(),
    "global_resolution": GlobalResolutionVerifier(),
    "balanced_multipath_block": BalancedMultipathBlockVerifier(),
    "lookahead_multipath_block": LookaheadMultipathBlockVerifier(),
    "greedy_block": GreedyBlockVerifier(),
    "greedy_multipath_carry": GreedyMultipathCarryVerifier(),
    "block_transport": BlockTransportVerifier(),
}


def names() -> tuple[str, ...]:
    """Return the names of all verifiers, in the order in which reports list them.

    >>> names()[:3]
    ('token', 'block', 'sample_and_match')
    """
    return tuple(_REGISTRY)


def get(name: str) -> AnyVerifier:
    """Return the verifier called ``name``; raises `InvalidInputError` for an unknown one."""
    try:
        return _REGISTRY[name]
    except KeyError:
        raise InvalidInputError(f"name: {unknown(name, _REGISTRY, 'verifier')}") from None
