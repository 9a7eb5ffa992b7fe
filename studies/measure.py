"""Exact shortfalls of rules on toys, by enumeration, and of ours node by node where that is out of reach."""

from dataclasses import dataclass

import verifiers
from spec_oracle.exact import emission_law, tokens_per_call
from spec_oracle.optimum import (
    block_transport_optimum,
    multi_path_optimum,
    proven_bound,
    single_path_optimum,
)
from studies.carried_block import CarriedBlockVerifier
from studies.selected_path import selected_path
from studies.toys import Toy

OURS = "lookahead_multipath_block"
BALANCED = "balanced_multipath_block"

PUBLISHED = (
    "global_resolution",
    "canonical",
    "k_seq",
    "traversal",
    "recursive_rejection",
    "greedy_multipath_block",
    "naive",
    "block",
    "nss",
)

RULES = (OURS, BALANCED, *PUBLISHED)

MAX_TUPLES = {"canonical": 1024}
"""Where a rule's enumeration is slow, the most draft tuples it is tried on."""

MAX_TUPLES_CARRIED = 81
NUM_CALLS = 3


@dataclass(frozen=True)
class Record:
    """One toy: its ``optimum`` in tokens per call, and every rule's ``shortfall`` 1 - BE/optimum and TV."""

    toy: Toy
    optimum: float
    shortfall: dict[str, float]
    total_variation: dict[str, float]


@dataclass(frozen=True)
class LargerRecord:
    """One toy beyond enumeration: `OURS`, a bound on the optimum and `block`, in tokens per call."""

    toy: Toy
    ours: float
    bound: float
    block: float


@dataclass(frozen=True)
class CarriedRecord:
    """Carry-over on one toy: tokens of each of the first calls, of `BALANCED` and with carry-over.

    ``shortfall`` of the first call from `block_transport_optimum`; ``total_variation`` of the text of several
    calls, L + 1 tokens.
    """

    toy: Toy
    balanced: tuple[float, ...]
    carried: tuple[float, ...]
    shortfall: float
    total_variation: float


def measured(toy: Toy) -> Record:
    """Enumerate every rule on ``toy``."""
    optimum = float(multi_path_optimum(toy.instance).value)
    tried = [name for name in RULES if toy.num_tuples <= MAX_TUPLES.get(name, toy.num_tuples)]
    laws = {name: emission_law(verifiers.get(name), toy.instance) for name in tried}
    return Record(
        toy,
        optimum,
        {name: float(1 - law.block_efficiency / optimum) for name, law in laws.items()},
        {name: float(law.total_variation) for name, law in laws.items()},
    )


def measured_by_nodes(toy: Toy) -> LargerRecord:
    """Measure ``toy`` without its draft tuples."""
    _, tokens = selected_path(toy.instance)
    bound, block = proven_bound(toy.instance).bound, single_path_optimum(toy.instance).value
    return LargerRecord(toy, tokens, bound, float(block))


def measured_with_carry(toy: Toy) -> CarriedRecord:
    """Enumerate several calls of the carry-over experiment on ``toy``."""
    carried = CarriedBlockVerifier()
    tokens = tokens_per_call(carried, toy.instance, NUM_CALLS)
    return CarriedRecord(
        toy,
        tokens_per_call(verifiers.get(BALANCED), toy.instance, NUM_CALLS),
        tokens,
        1 - tokens[0] / float(block_transport_optimum(toy.instance).value),
        float(emission_law(carried, toy.instance).total_variation),
    )


def carries(toy: Toy) -> bool:
    """Whether the carry-over experiment is run on ``toy``: it has something to carry, and is small."""
    return toy.seed == 0 and toy.instance.draft_length > 1 and toy.num_tuples <= MAX_TUPLES_CARRIED
