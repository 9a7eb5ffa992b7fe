"""Exact shortfalls of rules on toys, by enumeration, and of ours node by node where that is out of reach."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import verifiers
from lab.studies.carried_block import CarriedBlockVerifier
from lab.studies.selected_path import selected_path
from lab.studies.toys import Key, Toy
from spec_oracle.exact import emission_law, tokens_per_call
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, proven_bound

OURS = "lookahead_multipath_block"
BALANCED = "balanced_multipath_block"

PUBLISHED = (
    *("global_resolution", "canonical", "k_seq", "traversal", "recursive_rejection"),
    *("greedy_multipath_block", "naive", "block", "nss"),
)

RULES = (OURS, BALANCED, *PUBLISHED)

MAX_TUPLES = {"canonical": 1024}
"""Where a rule's enumeration is slow, the most draft tuples it is tried on."""

MAX_NODE_TUPLES = 300
"""The most draft tuples of a node for a walk to be tried on a larger toy."""

GAP = 5e-4
"""How near the bounds of larger toys come to the optimum, in tokens."""

FINE_STEPS = 512
"""Ranks of ours, to see what their number costs."""

MAX_TUPLES_CARRIED = 81
NUM_CALLS = 3


@dataclass(frozen=True)
class Record:
    """One toy: its ``optimum`` in tokens per call, and every rule's ``shortfall`` 1 - BE/optimum and TV.

    Of a larger toy the optimum is a bound, at most ``gap`` tokens above it. ``fine`` is the shortfall of ours
    with `FINE_STEPS` ranks.
    """

    toy: Toy
    optimum: float
    shortfall: dict[str, float]
    total_variation: dict[str, float]
    gap: float = 0.0
    fine: float = 0.0


@dataclass(frozen=True)
class CarriedRecord:
    """Carry-over on one toy: tokens of each of the first calls, of `BALANCED` and with carry-over.

    ``shortfall`` of the first call from `block_transport_optimum`; ``total_variation`` of the text of several
    calls, L + 1 tokens.
    """

    balanced: Sequence[float]
    carried: Sequence[float]
    shortfall: float
    total_variation: float


def cell(*, seed: int, toy: Key, max_tuples: int) -> dict[str, Any]:
    """Return the record of a toy as data, and that of the carry-over experiment where it is run on it."""
    del seed  # figures of a toy with a seed of its own are exact
    here = Toy.at(toy)
    if here.num_tuples > max_tuples:
        return {"record": _data(measured_by_nodes(here)), "carried": None}
    carried = vars(measured_with_carry(here)) if carries(here) else None
    return {"record": _data(measured(here)), "carried": carried}


def _data(record: Record) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name != "toy"}


def measured(toy: Toy) -> Record:
    """Enumerate every rule on ``toy``."""
    optimum = float(multi_path_optimum(toy.instance).value)
    tried = [name for name in RULES if toy.num_tuples <= MAX_TUPLES.get(name, toy.num_tuples)]
    fine = 1 - selected_path(toy.instance, FINE_STEPS)[1] / optimum
    return Record(toy, optimum, *enumerated(toy, tried, optimum), fine=fine)


def enumerated(toy: Toy, names: Iterable[str], optimum: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return shortfall and total variation of the named rules."""
    laws = {name: emission_law(verifiers.get(name), toy.instance) for name in names}
    return (
        {name: float(1 - law.block_efficiency / optimum) for name, law in laws.items()},
        {name: float(law.total_variation) for name, law in laws.items()},
    )


def measured_by_nodes(toy: Toy, rules: Sequence[str] = RULES) -> Record:
    """Measure ``toy`` without its draft tuples: `OURS` and, of ``rules``, walks and what sees one path."""
    best = proven_bound(toy.instance, gap=GAP)
    _, tokens = selected_path(toy.instance)
    shortfall, variation = enumerated(toy, [name for name in rules if _is_by_nodes(name, toy)], best.bound)
    return Record(toy, best.bound, {OURS: 1 - tokens / best.bound, **shortfall}, variation, best.gap)


def _is_by_nodes(name: str, toy: Toy) -> bool:
    """Whether the rule is merged node by node, with few draft tuples at each."""
    traits = verifiers.traits_of(verifiers.get(name))
    vocab, _, paths = toy.size
    tuples = comb(vocab + paths - 1, paths) if traits.any_order else vocab**paths
    return traits.single_path or (traits.walks and tuples <= MAX_NODE_TUPLES)


def measured_with_carry(toy: Toy) -> CarriedRecord:
    """Enumerate several calls of the carry-over experiment on ``toy``."""
    carried = CarriedBlockVerifier()
    tokens = tokens_per_call(carried, toy.instance, NUM_CALLS)
    return CarriedRecord(
        tokens_per_call(verifiers.get(BALANCED), toy.instance, NUM_CALLS),
        tokens,
        1 - tokens[0] / float(block_transport_optimum(toy.instance).value),
        float(emission_law(carried, toy.instance).total_variation),
    )


def carries(toy: Toy) -> bool:
    """Whether the carry-over experiment is run on ``toy``: it has something to carry, and is small."""
    return toy.seed == 0 and toy.instance.draft_length > 1 and toy.num_tuples <= MAX_TUPLES_CARRIED
