"""Distributions of completions: of target-only decoding, from what the engine reports, and traced ones."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from spec_oracle.audit.engine.speculation import Speculation, speculation_seen
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import EngineCode, Ids, as_list, copy_of
from spec_oracle.exact.interception import (
    Branch,
    NotTracedError,
    UnrepeatableError,
    enumerate_calls,
)
from spec_oracle.exact.representatives import OPEN

Label = TypeVar("Label", bound=Hashable)


def target_law(code: EngineCode, prompt: Ids, tokens: int) -> dict[Ids, float]:
    """Return the law of completions of target-only decoding, from the rows that the engine reports.

    Completions of ``tokens`` tokens, or shorter ones that end as the engine says; impossible ones are left
    out.
    """
    law: dict[Ids, float] = {}
    pending: list[tuple[Ids, float]] = [((), 1.0)]
    while pending:
        completion, mass = pending.pop()
        if len(completion) == tokens or (completion and code.is_ended(completion)):
            law[completion] = mass
            continue
        row = code.row(prompt + completion)
        pending += [((*completion, token), mass * float(row[token])) for token in row.nonzero()[0].tolist()]
    return law


@dataclass(frozen=True)
class TracedLaw:
    """The exact law of what an engine returned; ``runs`` of it, and what was seen of its drafts.

    ``keeps_state``: generations change those that follow, so that each of these was a fresh copy's first.
    """

    law: Mapping[Any, float]
    runs: int
    speculation: Speculation
    keeps_state: bool = False


def traced_completions(
    code: EngineCode, prompt: Ids, tokens: int, most_runs: int, method: str = "generate"
) -> TracedLaw:
    """Return the exact law of one generation's completion; errors as of `traced`."""
    return traced(
        code,
        lambda engine: as_list(getattr(engine, method)(list(prompt), tokens)),
        lambda returned: code.checked(returned, tokens, method),
        most_runs,
    )


def traced_pairs(code: EngineCode, requests: Sequence[tuple[Ids, int]], most_runs: int) -> TracedLaw:
    """Return the exact law of completions that follow each other, of requests (prompt, tokens).

    Every run is that of a fresh copy, if the engine can be copied. Errors as of `traced`.
    """

    def generations(engine: Any) -> list[list[Any]]:
        return [as_list(engine.generate(list(prompt), tokens)) for prompt, tokens in requests]

    def label(returned: list[list[Any]]) -> tuple[Ids, ...]:
        return tuple(code.checked(some, tokens) for some, (_, tokens) in zip(returned, requests, strict=True))

    return traced(code, generations, label, most_runs, fresh=code.unused is not None)


def traced(
    code: EngineCode,
    call: Callable[[Any], Any],
    label: Callable[[Any], Label],
    most_runs: int,
    *,
    fresh: bool = False,
) -> TracedLaw:
    """Return the law of ``label(call(engine))``; of fresh copies if generations change those that follow.

    Raises `NoEvidenceError` where the law would not be exact, or the engine raises while it is traced;
    `ContractError` for what cannot be a completion.
    """
    try:
        try:
            return _traced(code, call, label, most_runs, fresh=fresh)
        except UnrepeatableError:
            if code.unused is None or fresh:
                raise
        return replace(_traced(code, call, label, most_runs, fresh=True), keeps_state=True)
    except SubjectRaisedError as error:
        raise NoEvidenceError(
            f"could not trace the random numbers: with traced ones it {error}; sampled instead"
        ) from None
    except NotTracedError as error:
        raise NoEvidenceError(f"could not trace the random numbers: {error}; sampled instead") from None


def _traced(
    code: EngineCode,
    call: Callable[[Any], Any],
    label: Callable[[Any], Label],
    most_runs: int,
    *,
    fresh: bool,
) -> TracedLaw:
    def run() -> tuple[Any, Speculation]:
        engine = copy_of(code.unused) if fresh else code.engine
        with speculation_seen(engine) as seen:
            returned = call(engine)
        return returned, seen()

    with raising():
        branches = enumerate_calls(run, max_branches=most_runs, leave_open=True)
    masses: dict[Any, list[float]] = defaultdict(list)
    speculation = Speculation()
    for branch in branches:
        speculation |= branch.result[1]
        for mass, returned in _outcomes(branch):
            masses[label(returned)].append(mass)
    law = {completion: math.fsum(parts) for completion, parts in masses.items()}
    return TracedLaw(law, len(branches), speculation)


def _outcomes(branch: Branch[tuple[Any, Speculation]]) -> Iterator[tuple[float, Any]]:
    """Yield what a branch returned for every value of the token that it left open, if any, and the mass."""
    returned, _ = branch.result
    if not branch.stands:
        yield branch.weight, returned
    for stand in branch.stands:  # one at most
        for value in stand.chances.nonzero()[0].tolist():
            yield branch.weight * float(stand.chances[value]), _with_token(returned, int(stand.values[value]))


def _with_token(returned: Any, token: int) -> Any:
    """Return (lists of) tokens with the open one filled in."""
    if isinstance(returned, list):
        return [_with_token(part, token) for part in returned]
    return token if type(returned) is int and returned == OPEN else returned


def product(laws: Sequence[Mapping[Ids, float]]) -> dict[tuple[Ids, ...], float]:
    """Return the law of independent completions."""
    joint: dict[tuple[Ids, ...], float] = {(): 1.0}
    for law in laws:
        joint = {
            (*before, one): mass * chance for before, mass in joint.items() for one, chance in law.items()
        }
    return joint


def distance(law: Mapping[Any, float], expected: Mapping[Any, float]) -> float:
    """Return the total variation between two laws of completions."""
    return math.fsum(abs(law.get(one, 0.0) - expected.get(one, 0.0)) for one in {*law, *expected}) / 2
