"""Aggregates that an engine reports of its calls, compared with the log of the same calls.

An engine reports a rate, a length or a counter, and the log has every call it is made of, so that the two are
equal or one is wrong. A number is compared to the digits in which it is given, rounded or cut.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spec_oracle.acceptance.log import LoggedCalls
from spec_oracle.acceptance.where import is_last_of_prompt
from spec_oracle.arrays import Floats
from spec_oracle.errors import InvalidInputError, unknown

POSITIONS = "positions"
TOKENS = "tokens"
NAMES = {
    "length": "tokens per call",
    "accepted/call": "accepted tokens per call",
    "accepted/drafted": "accepted tokens per drafted token",
    "accepted/verified": "accepted tokens per token up to the first rejection",
    POSITIONS: "the share of all calls that accept token 1, 2, ...",
    "calls": "calls with a draft or without",
    "drafted": "drafted tokens",
    "accepted": "accepted tokens",
    TOKENS: "tokens of the completions: one of each call, and those it accepted",
}
"""What can be reported, and what it means."""

Reported = Mapping[str, Sequence[str]]
"""What an engine reports: numbers by their names, in the digits in which they are given."""


@dataclass(frozen=True)
class Aggregate:
    """A reported number, or a list of them: ``given``, and ``logged`` in its place."""

    name: str
    given: tuple[str, ...]
    logged: tuple[float, ...]
    agrees: bool


def read_reported(text: str) -> Reported:
    """Read ``NAME=VALUE,...``; a value without a name continues the list before it.

    Raises `InvalidInputError` for other names, and for values that are no numbers.

    >>> read_reported("length=1.9,positions=0.6,0.3")
    {'length': ['1.9'], 'positions': ['0.6', '0.3']}
    """
    found: dict[str, list[str]] = {}
    for part in text.split(","):
        name, _, value = part.strip().rpartition("=")
        if name and name not in NAMES:
            raise InvalidInputError(f"--reported: {unknown(name, NAMES, 'name')}")
        if not name and not found:
            raise InvalidInputError(f"--reported: expected NAME=VALUE, got {part.strip()!r}")
        found.setdefault(name or [*found][-1], []).append(value.strip())
    for name, values in found.items():
        for one in values:
            if not math.isfinite(_number(one)):
                what = "numbers with commas between them" if name == POSITIONS else "a number"
                raise InvalidInputError(f"--reported: {name}: expected {what}, got {one!r}")
        if len(values) > 1 and name != POSITIONS:
            raise InvalidInputError(f"--reported: {name}: expected one number, got {','.join(values)}")
    return found


def compared(reported: Reported, calls: LoggedCalls) -> tuple[Aggregate, ...]:
    """Compare each reported aggregate with that of the log."""
    return tuple(_compared(name, tuple(given), calls) for name, given in reported.items())


def _compared(name: str, given: tuple[str, ...], calls: LoggedCalls) -> Aggregate:
    if name == TOKENS:
        return _tokens(given, calls)
    logged = aggregates(calls)[name]
    return Aggregate(name, given, logged, _fits(given, logged))


def _tokens(given: tuple[str, ...], calls: LoggedCalls) -> Aggregate:
    """Compare the tokens of completions with those of the calls: each emits one and its accepted drafts.

    The first token of a completion may be of no call, and the last call may be cut at a stop token or limit.
    """
    if repr(None) in calls.prompts:
        raise InvalidInputError(
            '--reported tokens: the log needs a "prompt" in each call, since the first token of a completion '
            "may be of no call, and its last call may be cut"
        )
    last = is_last_of_prompt(calls)
    total = len(calls.lengths) + int(calls.accepted.sum())
    agrees = total - calls.accepted[last].sum() <= _number(given[0]) <= total + last.sum()
    return Aggregate(TOKENS, given, (float(total),), bool(agrees))


def aggregates(calls: LoggedCalls, tails: Floats | None = None) -> dict[str, tuple[float, ...]]:
    """Return what the log has of each aggregate but `TOKENS`, by name.

    With ``tails``, P(n >= i) [N, L] of a rule, what it is expected to have.
    """
    places = np.arange(1, calls.p.shape[1] + 1)
    kept = (calls.accepted[:, None] >= places).astype(float) if tails is None else tails
    count, drafted, accepted = len(calls.lengths), float(calls.lengths.sum()), float(kept.sum())
    verified = float((calls.is_draft * np.hstack([np.ones((count, 1)), kept[:, :-1]])).sum())
    return {
        "accepted/call": (accepted / count,),
        "length": (accepted / count + 1,),
        "accepted/drafted": (accepted / drafted,),
        "accepted/verified": (accepted / verified,),
        POSITIONS: tuple(kept.mean(axis=0).tolist()),
        "calls": (count,),
        "drafted": (drafted,),
        "accepted": (accepted,),
    }


def _fits(given: Sequence[str], values: Sequence[float]) -> bool:
    """Whether the values equal the given ones, rounded or cut to the given digits."""
    return len(given) == len(values) and all(
        abs(_number(one) - value) < _unit(one) for one, value in zip(given, values, strict=True)
    )


def _number(text: str) -> float:
    """Return a number that may be in per cent; NaN for other text."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan


def _unit(text: str) -> float:
    """Return one unit of the last digit of a number."""
    digits = len(text.removesuffix("%").lower().partition("e")[0].partition(".")[2])
    return 10.0**-digits / (100 if text.endswith("%") else 1)
