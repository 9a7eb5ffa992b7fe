"""Drafts and accepted lengths of the first two calls, of engines with ``start``, as experiments."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.audit import effort
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import Asked, traced
from spec_oracle.audit.experiment import Experiment, TracedOutcome, require_certain
from spec_oracle.contracts import ContractError, raising
from spec_oracle.contracts.engine import EngineCode, Session, copied
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.completions import Ids, summed
from spec_oracle.toy import Instance, ToyModel

# Share of the budget for the calls that `draft-law` and `length` sample where they cannot trace them.
ENGINE_STEPS_SHARE: Final = 0.3

CALLS = 2
"""Calls that are looked at: what the first one leaves behind shows in the second."""

_ROUNDED = 9


class SeenStep(NamedTuple):
    """One call: drafted tokens, the q reported with each, emitted tokens, accepted length."""

    drafts: Ids
    rows: tuple[tuple[float, ...], ...]
    emitted: Ids
    accepted: int


Steps = tuple[SeenStep, ...]
Outcome: TypeAlias = Callable[[Steps], Any]


def of_steps(case: Case, what: str, outcome: Outcome, **more: Any) -> Experiment:
    """Return the experiment of the first calls, whose outcome is ``outcome(steps)``."""

    def trace(most_runs: int, end: float) -> TracedOutcome:
        del most_runs, end
        found = traced_steps(case)
        return replace(found, law=summed((outcome(steps), mass) for steps, mass in found.law.items()))

    def many(count: int) -> list[Any]:
        return [outcome(steps) for steps in sampled_steps(case, count)]

    usual = {"trace": trace, "shown": str, "tokens": _most_tokens(case.code)}
    return Experiment(f"{case.label}, {what}", f"{CALLS} calls", many=many, **{**usual, **more})


@lru_cache(maxsize=16)
def traced_steps(case: Case) -> TracedOutcome:
    """Return the exact distribution of the first calls; raises `NoEvidenceError` without one.

    Several experiments of two checks ask for it.
    """

    def call(engine: Any, _: object) -> list[list[object]]:
        calls = _calls(engine.start(list(case.prompt), _most_tokens(case.code)))
        return [[some.tolist() if hasattr(some, "tolist") else some for some in call] for call in calls]

    asked = Asked(case.code, call, lambda calls: _of_requests(calls)[0], np.random.default_rng(0))
    found = traced(asked, effort.ENGINE_RUNS)
    if not found.is_decided:
        require_certain(case.code.law(case.prompt, 1))
    case.code.drafts.seen |= _speculation(found.law)
    return found


def sampled_steps(case: Case, count: int) -> list[Steps]:
    """Return the first calls of so many generations: one after another, or of one batch."""
    many, found = count if case.code.has("start_many") else 1, list[Steps]()
    while len(found) < count:
        session = case.code.session(case.prompt, _most_tokens(case.code), [None] * many)
        with raising():
            calls = _calls(session)
        found += _of_requests(calls)
    case.code.drafts.seen |= _speculation(found)
    return found


def _speculation(found: Iterable[Steps]) -> Speculation:
    """Return whether drafts were made, accepted and rejected in some steps."""
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
    steps = (session.step() for _ in range(CALLS))
    return [[copied(getattr(step, name)) for name in names] for step in steps]


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
    """Return target and drafter as the engine reports them after a prompt, for two calls."""
    with raising():
        length = int(code.engine.draft_length)
    vocab, depth = code.vocab_size, CALLS * (length + 1)

    def model(row: Callable[[Ids], Floats], order: int) -> ToyModel:
        levels = [
            np.stack([row(prompt + context) for context in np.ndindex(*(vocab,) * size)])
            for size in range(order + 1)
        ]
        return ToyModel(vocab, tuple(levels))

    return Instance(model(code.row, depth - 1), model(code.draft_row, depth - 2), length)
