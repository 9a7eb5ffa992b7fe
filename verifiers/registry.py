"""Verifiers by name."""

from verifiers.errors import InvalidInputError, unknown
from verifiers.interface import AnyVerifier
from verifiers.rules.balanced_multipath_block import BalancedMultipathBlockVerifier
from verifiers.rules.block import BlockVerifier
from verifiers.rules.block_transport import BlockTransportVerifier
from verifiers.rules.canonical import CANONICAL
from verifiers.rules.eagle import EAGLE
from verifiers.rules.global_resolution import GLOBAL_RESOLUTION
from verifiers.rules.greedy_block import GreedyBlockVerifier
from verifiers.rules.greedy_multipath_block import GreedyMultipathBlockVerifier
from verifiers.rules.greedy_multipath_carry import GreedyMultipathCarryVerifier
from verifiers.rules.k_seq import K_SEQ
from verifiers.rules.lookahead_multipath_block import LookaheadMultipathBlockVerifier
from verifiers.rules.naive import NAIVE
from verifiers.rules.nss import NSS
from verifiers.rules.recursive_rejection import RECURSIVE_REJECTION
from verifiers.rules.recursive_rejection_distinct import RECURSIVE_REJECTION_DISTINCT
from verifiers.rules.sample_and_match import SampleAndMatchVerifier
from verifiers.rules.token import TokenVerifier
from verifiers.rules.top_draft import TOP_DRAFT
from verifiers.rules.traversal import TraversalVerifier
from verifiers.rules.univer import UniVerVerifier

_REGISTRY: dict[str, AnyVerifier] = {
    "token": TokenVerifier(),
    "block": BlockVerifier(),
    "sample_and_match": SampleAndMatchVerifier(),
    "nss": NSS,
    "naive": NAIVE,
    "recursive_rejection": RECURSIVE_REJECTION,
    "recursive_rejection_distinct": RECURSIVE_REJECTION_DISTINCT,
    "k_seq": K_SEQ,
    "canonical": CANONICAL,
    "top_draft": TOP_DRAFT,
    "eagle": EAGLE,
    "traversal": TraversalVerifier(),
    "univer": UniVerVerifier(),
    "greedy_multipath_block": GreedyMultipathBlockVerifier(),
    "global_resolution": GLOBAL_RESOLUTION,
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
