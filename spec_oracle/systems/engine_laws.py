"""Laws of the texts of an engine: of plain decoding, from its rows, and of what it generates."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from spec_oracle.exact.interception import Branch, UnrepeatableError, enumerate_calls
from spec_oracle.exact.representatives import OPEN
from spec_oracle.plain import raising
from spec_oracle.systems.engine import EngineCode, Text, as_list, copy_of
from spec_oracle.systems.spies import Drafts, drafts_seen

Label = TypeVar("Label", bound=Hashable)


def law_of_rows(code: EngineCode, prompt: Text, tokens: int) -> dict[Text, float]:
    """Return the law of the text of plain decoding after a prompt, from the rows that the engine tells.

    Texts of ``tokens`` tokens, or shorter ones that end as the engine says; impossible ones are left out.
    """
    law: dict[Text, float] = {}
    pending: list[tuple[Text, float]] = [((), 1.0)]
    while pending:
        text, mass = pending.pop()
        if len(text) == tokens or (text and code.is_ended(text)):
            law[text] = mass
            continue
        row = code.row(prompt + text)
        pending += [((*text, token), mass * float(row[token])) for token in row.nonzero()[0].tolist()]
    return law


@dataclass(frozen=True)
class EnumeratedTexts:
    """The exact law of what an engine returned; ``runs`` of it, and what was seen of its drafts.

    ``keeps_state``: generations change those that follow, so that each of these was a fresh copy's first.
    """

    law: Mapping[Any, float]
    runs: int
    drafts: Drafts
    keeps_state: bool = False


def enumerated_texts(
    code: EngineCode, prompt: Text, tokens: int, *, plain: bool = False, most_runs: int = 100_000
) -> EnumeratedTexts:
    """Return the exact law of the text of one generation; ``plain`` for the one without speculation.

    Raises what `enumerate_calls` does where the law would not be exact, `ContractError` for what is no text,
    `SubjectRaisedError` when the engine raises while it is followed.
    """
    method = "generate_plain" if plain else "generate"

    def generation(engine: Any) -> list[Any]:
        return as_list(getattr(engine, method)(list(prompt), tokens))

    def label(returned: list[Any]) -> Text:
        return code.checked(returned, tokens, method)

    return enumerated(code, generation, label, most_runs)


def enumerated_pairs(
    code: EngineCode, requests: tuple[tuple[Text, int], ...], *, most_runs: int = 100_000
) -> EnumeratedTexts:
    """Return the exact law of the texts of generations that follow each other: (prompt, tokens) of each.

    Every run is that of a fresh copy, if the engine can be copied. Errors as above.
    """

    def generations(engine: Any) -> list[list[Any]]:
        return [as_list(engine.generate(list(prompt), tokens)) for prompt, tokens in requests]

    def label(returned: list[list[Any]]) -> tuple[Text, ...]:
        return tuple(code.checked(text, tokens) for text, (_, tokens) in zip(returned, requests, strict=True))

    engine = _kept(code) if code.unused is None else _fresh(code)
    return _enumerated(engine, generations, label, most_runs)


def enumerated(
    code: EngineCode, call: Callable[[Any], Any], label: Callable[[Any], Label], most_runs: int
) -> EnumeratedTexts:
    """Return the law of ``label(call(engine))``; of fresh copies if generations change those that follow."""
    try:
        return _enumerated(_kept(code), call, label, most_runs)
    except UnrepeatableError:
        if code.unused is None:
            raise
    return replace(_enumerated(_fresh(code), call, label, most_runs), keeps_state=True)


def _kept(code: EngineCode) -> Callable[[], Any]:
    return lambda: code.engine


def _fresh(code: EngineCode) -> Callable[[], Any]:
    return lambda: copy_of(code.unused)


def _enumerated(
    engine: Callable[[], Any],
    call: Callable[[Any], Any],
    label: Callable[[Any], Label],
    most_runs: int,
) -> EnumeratedTexts:
    def run() -> tuple[Any, Drafts]:
        made = engine()
        with drafts_seen(made) as seen:
            returned = call(made)
        return returned, seen()

    with raising():
        branches = enumerate_calls(run, max_branches=most_runs, leave_open=True)
    masses: dict[Any, list[float]] = defaultdict(list)
    drafts = Drafts()
    for branch in branches:
        drafts |= branch.result[1]
        for mass, returned in _outcomes(branch):
            masses[label(returned)].append(mass)
    law = {text: math.fsum(parts) for text, parts in masses.items()}
    return EnumeratedTexts(law, len(branches), drafts)


def _outcomes(branch: Branch[tuple[Any, Drafts]]) -> Iterator[tuple[float, Any]]:
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


def product(laws: Sequence[Mapping[Text, float]]) -> dict[tuple[Text, ...], float]:
    """Return the law of independent texts."""
    joint: dict[tuple[Text, ...], float] = {(): 1.0}
    for law in laws:
        joint = {
            (*before, text): mass * chance for before, mass in joint.items() for text, chance in law.items()
        }
    return joint


def distance(law: Mapping[Any, float], expected: Mapping[Any, float]) -> float:
    """Return the total variation between two laws of texts."""
    return math.fsum(abs(law.get(text, 0.0) - expected.get(text, 0.0)) for text in {*law, *expected}) / 2
