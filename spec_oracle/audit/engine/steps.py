"""What engines that show their steps draft and accept: traced, else sampled."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import Asked, traced
from spec_oracle.contracts import ContractError, raising
from spec_oracle.contracts.engine import EngineCode, Session
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.completions import Ids
from spec_oracle.toy import Instance, ToyModel

# Generations whose first two calls `draft-law` and `length` sample where they cannot trace them.
ENGINE_STEPS: Final = 500
ENGINE_STEPS_MANY: Final = 20_000  # The same for engines that decode many requests at once.

CALLS = 2
"""Calls that are looked at: what the first one leaves behind shows in the second."""

_ROUNDED = 9


class SeenStep(NamedTuple):
    """One call: drafted tokens, the q reported with each, what was emitted, how much was accepted."""

    drafts: Ids
    rows: tuple[tuple[float, ...], ...]
    emitted: Ids
    accepted: int


Steps = tuple[SeenStep, ...]


@lru_cache(maxsize=16)
def traced_steps(case: Case) -> dict[Steps, float]:
    """Return the law of the first calls; raises `NoEvidenceError` where it would not be exact.

    Two checks ask for it in a row.
    """

    def call(engine: Any, _: object) -> list[list[object]]:
        calls = _calls(engine.start(list(case.prompt), _most_tokens(case.code)))
        return [[some.tolist() if hasattr(some, "tolist") else some for some in call] for call in calls]

    asked = Asked(case.code, call, lambda calls: _of_requests(calls)[0])
    found = traced(asked, effort.ENGINE_RUNS)
    found.require_decisions(case.code.law(case.prompt, 1))
    case.code.drafts.seen |= _speculation(found.law)
    return dict(found.law)


def sampled_steps(case: Case, context: Context) -> Iterator[Steps]:
    """Yield the first calls of many generations: one after another, or of one batch."""
    seed_all(context.seed)
    many = ENGINE_STEPS_MANY if case.code.has("start_many") else 1
    for _ in range(1 if many > 1 else ENGINE_STEPS):
        session = case.code.session(case.prompt, _most_tokens(case.code), [None] * many)
        with raising():
            calls = _calls(session)
        found = _of_requests(calls)
        case.code.drafts.seen |= _speculation(found)
        yield from found


def _speculation(found: Iterable[Steps]) -> Speculation:
    """Return what steps show of drafts."""
    each = [(len(step.drafts), step.accepted) for steps in found for step in steps]
    return Speculation(
        reported=True,
        drafted=any(drafted for drafted, _ in each),
        accepted=any(accepted > 0 for _, accepted in each),
        rejected=any(accepted < drafted for drafted, accepted in each),
    )


def _most_tokens(code: EngineCode) -> int:
    """Return a limit that the calls do not reach."""
    with raising():
        return (CALLS + 1) * (int(getattr(code.engine, "draft_length", 1)) + 1)


def _calls(session: Session) -> list[list[object]]:
    names = ("draft_tokens", "draft_probs", "tokens", "num_accepted")
    steps = [session.step() for _ in range(CALLS)]
    return [[getattr(step, name) for name in names] for step in steps]


def _of_requests(calls: list[list[object]]) -> list[Steps]:
    """Return the steps of each request; those after its end are left out."""
    found: list[list[SeenStep]] = []
    try:
        for drafts, rows, tokens, accepted in calls:
            ids = (np.asarray(some, np.int64).tolist() for some in (drafts, tokens, accepted))
            reported = np.round(np.asarray(rows, np.float64), _ROUNDED).tolist()
            found = found or [[] for _ in reported]
            for steps, q, drafted, emitted, count in zip(found, reported, *ids, strict=True):
                if count >= 0:
                    kept = tuple(token for token in emitted if token >= 0)
                    steps.append(SeenStep(tuple(drafted), tuple(map(tuple, q)), kept, count))
    except (TypeError, ValueError) as error:
        raise ContractError(f"step() must return arrays with one row a request: {error}") from None
    return [tuple(steps) for steps in found]


def drafts_off(case: Case) -> tuple[float, str]:
    """Return how far drafts are from the rows reported with them, at the position where they are farthest.

    Given all that came before, and the row, a draft must have that row as its law; distances are means over
    what came before.
    """
    masses: dict[Any, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for steps, mass in traced_steps(case).items():
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
    return math.fsum(parts), f"draft {position + 1} of call {number + 1}, {case.label}"


def accepted_law(found: Mapping[Steps, float], width: int) -> NDArray[np.float64]:
    """Return P(tau_1, tau_2) as the engine reports it, flat; raises `ContractError` for false reports."""
    law = np.zeros((width, width))
    for steps, mass in found.items():
        law[accepted_pair(steps)] += mass
    return law.reshape(-1)


def accepted_pair(steps: Steps, *, may_end: bool = False) -> tuple[int, ...]:
    """Return the accepted lengths of the calls; raises `ContractError` for others than were emitted.

    The token after the accepted ones is missing where a completion ends, as it may.
    """
    for step in steps:
        missing = len(step.emitted) - step.accepted
        if missing != 1 and not (may_end and missing == 0):
            raise ContractError(
                f"step() reports {step.accepted} accepted drafts, and emits {len(step.emitted)} tokens"
            )
    return tuple(step.accepted for step in steps)


def declared_instance(code: EngineCode, prompt: Ids) -> Instance:
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
