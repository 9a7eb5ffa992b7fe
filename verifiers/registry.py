"""Verifiers by name."""

from verifiers.balanced_multipath_block import BalancedMultipathBlockVerifier
from verifiers.block import BlockVerifier
from verifiers.block_transport import BlockTransportVerifier
from verifiers.canonical import CanonicalVerifier
from verifiers.errors import InvalidInputError
from verifiers.global_resolution import GlobalResolutionVerifier
from verifiers.greedy_block import GreedyBlockVerifier
from verifiers.greedy_multipath import GreedyMultipathBlockVerifier
from verifiers.greedy_multipath_carry import GreedyMultipathCarryVerifier
from verifiers.interface import AnyVerifier
from verifiers.k_seq import KSeqVerifier
from verifiers.naive import NaiveVerifier
from verifiers.nss import NssVerifier
from verifiers.recursive_rejection import RecursiveRejectionVerifier
from verifiers.recursive_rejection_distinct import RecursiveRejectionDistinctVerifier
from verifiers.sample_and_match import SampleAndMatchVerifier
from verifiers.token import TokenVerifier
from verifiers.top_draft import TopDraftVerifier
from verifiers.traversal import TraversalVerifier

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
    "greedy_block": GreedyBlockVerifier(),
    "greedy_multipath_carry": GreedyMultipathCarryVerifier(),
    "block_transport": BlockTransportVerifier(),
}


def names() -> tuple[str, ...]:
    """Return the names of all verifiers, in the order in which reports list them."""
    return tuple(_REGISTRY)


def get(name: str) -> AnyVerifier:
    """Return the verifier called ``name``; raises `InvalidInputError` for an unknown one."""
    try:
        return _REGISTRY[name]
    except KeyError:
        known = ", ".join(_REGISTRY)
        raise InvalidInputError(f"name: unknown verifier {name!r}; known ones are {known}") from None
