"""What engines that show their steps draft and accept: enumerated by interception, else drawn."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.evidence.engine_cases import Case
from spec_oracle.audit.evidence.engine_enumerated import MOST_RUNS
from spec_oracle.audit.evidence.findings import NoEvidenceError
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.plain import ContractError, SubjectRaisedError, raising
from spec_oracle.systems.engine import EngineCode, Text
from spec_oracle.systems.engine_laws import enumerated
from spec_oracle.toy import Instance, ToyModel

CALLS = 2
"""Calls that are looked at: what the first one leaves behind shows in the second."""

_ROUNDED = 9


class SeenStep(NamedTuple):
    """One call: drafted tokens, the rows reported with them, what was emitted, how much was accepted."""

    drafts: Text
    rows: tuple[tuple[float, ...], ...]
    emitted: Text
    accepted: int


Steps = tuple[SeenStep, ...]


@dataclass(frozen=True)
class StepLaw:
    """The exact law of the first calls after a prompt; ``runs`` of the engine."""

    case: Case
    law: dict[Steps, float]
    runs: int


def showing(cases: Sequence[Case]) -> list[Case]:
    """Return the cases of engines that show their steps."""
    return [case for case in cases if case.code.has("start")]


@lru_cache(maxsize=1)
def enumerated_steps(case: Case, *, most_runs: int = MOST_RUNS) -> StepLaw:
    """Return the law of the first calls; raises `NoEvidenceError` where it would not be exact.

    Two checks ask for it in a row.
    """
    try:
        found = enumerated(case.code, lambda engine: _begun(case, engine, None), _seen, most_runs)
    except (NotTracedError, SubjectRaisedError) as error:
        raise NoEvidenceError(f"interception failed: {error}") from None
    return StepLaw(case, dict(found.law), found.runs)


def drawn_steps(case: Case, count: int) -> list[Steps]:
    """Return the first calls of so many generations."""
    with raising():
        return [_seen(_begun(case, case.code.engine, None)) for _ in range(count)]


def _begun(case: Case, engine: Any, seed: int | None) -> list[list[Any]]:
    length = int(getattr(engine, "draft_length", 1))
    session = engine.start(list(case.prompt), (CALLS + 1) * (length + 1), seed)
    steps = [session.step() for _ in range(CALLS)]
    names = ("draft_tokens", "draft_probs", "tokens", "num_accepted")
    return [[_plain(getattr(step, name)) for name in names] for step in steps]


def _plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def _seen(steps: list[list[Any]]) -> Steps:
    """Return the steps of a session of one request; those after its end are left out."""
    try:
        return tuple(
            SeenStep(
                tuple(int(token) for token in drafts[0]),
                tuple(tuple(round(float(p), _ROUNDED) for p in row) for row in rows[0]),
                tuple(int(token) for token in tokens[0] if token >= 0),
                int(accepted[0]),
            )
            for drafts, rows, tokens, accepted in steps
            if accepted[0] >= 0
        )
    except (TypeError, ValueError, IndexError) as error:
        raise ContractError(f"step: expected arrays of one request: {error}") from None


def drafts_off(found: StepLaw) -> tuple[float, str]:
    """Return how far drafts are from the rows reported with them, at the position where they are farthest.

    Given all that came before, and the row, a draft must have that row as its law; distances are means over
    what came before.
    """
    masses: dict[Any, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for steps, mass in found.law.items():
        for number, step in enumerate(steps):
            for position, (token, row) in enumerate(zip(step.drafts, step.rows, strict=True)):
                key = (number, position, steps[:number], step.drafts[:position], step.rows[:position], row)
                masses[key][token] += mass
    totals: dict[tuple[int, int], list[float]] = defaultdict(list)
    for (number, position, *_, row), drawn in masses.items():
        total = math.fsum(drawn.values())
        gaps = [abs(drawn.get(token, 0.0) - total * chance) for token, chance in enumerate(row)]
        beyond = [mass for token, mass in drawn.items() if not 0 <= token < len(row)]
        totals[number, position].append((math.fsum(gaps) + math.fsum(beyond)) / 2)
    if not totals:
        return 0.0, "nothing was drafted"
    (number, position), parts = max(totals.items(), key=lambda item: math.fsum(item[1]))
    return math.fsum(parts), f"draft {position + 1} of call {number + 1}, {found.case}"


def accepted_law(found: StepLaw, width: int) -> NDArray[np.float64]:
    """Return P(tau_1, tau_2) as the engine reports it, flat; raises `ContractError` for false reports."""
    law = np.zeros((width, width))
    for steps, mass in found.law.items():
        law[accepted_pair(steps)] += mass
    return law.reshape(-1)


def accepted_pair(steps: Steps) -> tuple[int, int]:
    """Return the accepted lengths of two calls; raises `ContractError` for others than were emitted."""
    for step in steps:
        if step.accepted != len(step.emitted) - 1:
            raise ContractError(f"reports {step.accepted} accepted, emitted {len(step.emitted)} tokens")
    first, second = (step.accepted for step in steps)
    return first, second


def declared_instance(code: EngineCode, prompt: Text) -> Instance:
    """Return what the engine says of its models after a prompt, for the contexts of two calls."""
    with raising():
        length = int(code.engine.draft_length)
    vocab, depth = code.vocab_size, CALLS * (length + 1)

    def model(row: Any, order: int) -> ToyModel:
        levels = [
            np.stack([row(prompt + context) for context in np.ndindex(*(vocab,) * size)])
            for size in range(order + 1)
        ]
        return ToyModel(vocab, tuple(levels))

    return Instance(model(code.row, depth - 1), model(code.draft_row, depth - 2), length)
