"""Verifiers by name."""

from verifiers.errors import InvalidInputError, unknown
from verifiers.interface import AnyVerifier
from verifiers.parts.tree_walk import TreeWalk
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
from verifiers.trees import Siblings, TreeRule

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
    "traversal": TraversalVerifier(),
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


_INDEPENDENT = frozenset({Siblings.INDEPENDENT, Siblings.PATHS})
_SAMPLED = _INDEPENDENT | {Siblings.DISTINCT, Siblings.BEAM}

_WALKS = {
    "nss": (NSS, frozenset(Siblings)),
    "naive": (NAIVE, _SAMPLED),
    "recursive_rejection": (RECURSIVE_REJECTION, _INDEPENDENT),
    "recursive_rejection_distinct": (RECURSIVE_REJECTION_DISTINCT, _SAMPLED),
    "k_seq": (K_SEQ, _INDEPENDENT),
    "canonical": (CANONICAL, _INDEPENDENT),
    "top_draft": (TOP_DRAFT, frozenset({Siblings.TOP_AND_SAMPLED})),
    "global_resolution": (GLOBAL_RESOLUTION, _INDEPENDENT),
}

_TREE_RULES: dict[str, TreeRule] = {
    "block": BlockVerifier(),
    **{name: TreeWalk(walk.rule, accepts, traits=walk.traits) for name, (walk, accepts) in _WALKS.items()},
    "eagle": EAGLE,
    "traversal": TraversalVerifier(),
    "univer": UniVerVerifier(),
    "balanced_multipath_block": BalancedMultipathBlockVerifier(),
    "lookahead_multipath_block": LookaheadMultipathBlockVerifier(),
}


def tree_rule_names() -> tuple[str, ...]:
    """Return the names of all rules for draft trees.

    >>> tree_rule_names()[-3:]
    ('univer', 'balanced_multipath_block', 'lookahead_multipath_block')
    """
    return tuple(_TREE_RULES)


def tree_rule(name: str) -> TreeRule:
    """Return the rule for draft trees called ``name``; raises `InvalidInputError` for an unknown one."""
    try:
        return _TREE_RULES[name]
    except KeyError:
        raise InvalidInputError(f"name: {unknown(name, _TREE_RULES, 'tree rule')}") from None
