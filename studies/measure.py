"""Exact shortfalls of rules and experiments on toys."""

from collections.abc import Callable
from dataclasses import dataclass

import verifiers
from spec_oracle.exact import emission_law, tokens_per_call
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum
from spec_oracle.toy import Instance
from studies.averaged_block import AveragedBlockVerifier, continuation_values
from studies.carried_block import CarriedBlockVerifier
from studies.toys import Toy
from verifiers import Verifier

OURS = "balanced_multipath_block"

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

EXPERIMENTS: dict[str, Callable[[Instance], Verifier]] = {
    "averaged counts": lambda _: AveragedBlockVerifier(),
    "averaged, look-ahead 1/2": lambda toy: AveragedBlockVerifier(continuation_values(toy, 0.5)),
    "averaged, look-ahead 1": lambda toy: AveragedBlockVerifier(continuation_values(toy, 1.0)),
    "averaged, look-ahead -1/2": lambda toy: AveragedBlockVerifier(continuation_values(toy, -0.5)),
}
"""Rules without carry-over that might close the gap; not in the registry."""

MAX_TUPLES = {"canonical": 1024, **dict.fromkeys(EXPERIMENTS, 256)}
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
class CarriedRecord:
    """Carry-over on one toy: tokens of each of the first calls, of `OURS` and with carry-over.

    ``shortfall`` of the first call from `block_transport_optimum`; ``total_variation`` of the text of several
    calls, L + 1 tokens.
    """

    toy: Toy
    ours: tuple[float, ...]
    carried: tuple[float, ...]
    shortfall: float
    total_variation: float


def measured(toy: Toy) -> Record:
    """Enumerate every rule on ``toy``."""
    optimum = float(multi_path_optimum(toy.instance).value)
    rules = {name: verifiers.get(name) for name in (OURS, *PUBLISHED) if _is_tried(name, toy)}
    rules |= {name: make(toy.instance) for name, make in EXPERIMENTS.items() if _is_tried(name, toy)}
    laws = {name: emission_law(rule, toy.instance) for name, rule in rules.items()}
    return Record(
        toy,
        optimum,
        {name: float(1 - law.block_efficiency / optimum) for name, law in laws.items()},
        {name: float(law.total_variation) for name, law in laws.items()},
    )


def _is_tried(name: str, toy: Toy) -> bool:
    return toy.num_tuples <= MAX_TUPLES.get(name, toy.num_tuples)


def measured_with_carry(toy: Toy) -> CarriedRecord:
    """Enumerate several calls of the carry-over experiment on ``toy``."""
    carried = CarriedBlockVerifier()
    tokens = tokens_per_call(carried, toy.instance, NUM_CALLS)
    return CarriedRecord(
        toy,
        tokens_per_call(verifiers.get(OURS), toy.instance, NUM_CALLS),
        tokens,
        1 - tokens[0] / float(block_transport_optimum(toy.instance).value),
        float(emission_law(carried, toy.instance).total_variation),
    )


def carries(toy: Toy) -> bool:
    """Whether the carry-over experiment is run on ``toy``: it has something to carry, and is small."""
    return toy.seed == 0 and toy.instance.draft_length > 1 and toy.num_tuples <= MAX_TUPLES_CARRIED
