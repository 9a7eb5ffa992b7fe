"""Aggregates that an engine reports of its calls, beside the log of the same calls.

An engine reports a rate, a length or a counter, and the log has every call it is made of, so that the two are
equal or one is wrong. A number is compared to the digits in which it is given, rounded or cut. Where it is
another one, it is looked for among other definitions, and among mistakes that engines have made: the
correction or bonus token counted, the drafts taken as long as the longest, a mean of rates.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spec_oracle.acceptance.log import LoggedCalls
from spec_oracle.acceptance.where import is_last_of_prompt
from spec_oracle.arrays import Booleans, Floats
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
    TOKENS: "tokens of the completions",
}
"""What can be reported, and what it means."""

Reported = Mapping[str, Sequence[str]]
"""What an engine reports: numbers by their names, in the digits in which they are given."""


@dataclass(frozen=True)
class Aggregate:
    """A reported number, or a list of them: ``given`` and ``logged``, and what the given one would be."""

    name: str
    given: tuple[str, ...]
    logged: tuple[float, ...]
    agrees: bool
    instead: str = ""


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
                raise InvalidInputError(f"--reported: {name}: expected a number, got {one!r}")
        if len(values) > 1 and name != POSITIONS:
            raise InvalidInputError(f"--reported: {name}: expected one number, got {','.join(values)}")
    return found


def compared(reported: Reported, calls: LoggedCalls) -> tuple[Aggregate, ...]:
    """Return each reported aggregate beside what the log of the calls has in its place."""
    return tuple(_compared(name, tuple(given), calls) for name, given in reported.items())


def _compared(name: str, given: tuple[str, ...], calls: LoggedCalls) -> Aggregate:
    if name == TOKENS:
        return _tokens(given, calls)
    if name == POSITIONS:
        logged = _shares(calls.accepted[:, None] >= _places(calls))
        if agrees := _fits(given, logged):
            return Aggregate(name, given, logged, agrees)
        fitting = [what for what, values in _other_positions(calls) if _fits(given, values)]
        return Aggregate(name, given, logged, agrees, fitting[0] if fitting else _sum(given, logged))
    logged = (_single(calls)[name],)
    if agrees := _fits(given, logged):
        return Aggregate(name, given, logged, agrees)
    others = {**_single(calls), **_mistakes(calls)}
    fitting = [what for what, value in others.items() if _fits(given, (value,))]
    nearest = min(fitting, key=lambda what: abs(others[what] - _number(given[0])), default="")
    return Aggregate(name, given, logged, agrees, nearest and f"{given[0]} would be {nearest}")


def _tokens(given: tuple[str, ...], calls: LoggedCalls) -> Aggregate:
    """Compare tokens of completions with the calls: one of each call, and those it accepted.

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
    made = f"{len(calls.lengths):,} calls, each with its accepted tokens and one more"
    return Aggregate(TOKENS, given, (float(total),), bool(agrees), "" if agrees else made)


def _single(calls: LoggedCalls) -> dict[str, float]:
    """Return the aggregates that are one number, by name."""
    count, drafted, accepted = _totals(calls)
    verified = np.minimum(calls.accepted + 1, calls.lengths).sum()
    return {
        "length": accepted / count + 1,
        "accepted/call": accepted / count,
        "accepted/drafted": accepted / drafted,
        "accepted/verified": accepted / float(verified),
        "calls": count,
        "drafted": drafted,
        "accepted": accepted,
    }


def _mistakes(calls: LoggedCalls) -> dict[str, float]:
    """Return what has been reported in place of these aggregates."""
    count, drafted, accepted = _totals(calls)
    some = calls.lengths > 0
    return {
        "calls + accepted": count + accepted,
        "drafted + calls": drafted + count,
        "(accepted + calls) / (drafted + calls)": (accepted + count) / (drafted + count),
        "(accepted + calls) / drafted": (accepted + count) / drafted,
        "accepted / (calls times the longest draft)": accepted / (count * float(calls.lengths.max())),
        "the mean over calls of accepted / drafted": float(
            (calls.accepted[some] / calls.lengths[some]).mean()
        ),
    }


def _other_positions(calls: LoggedCalls) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield what has been reported in place of the shares of calls that accept each token."""
    places = _places(calls)
    is_kept = calls.accepted[:, None] >= places
    is_tried = (calls.accepted[:, None] >= places - 1) & (calls.lengths[:, None] >= places)
    for whose, among in (
        ("draft so many tokens", calls.lengths[:, None] >= places),
        ("accept the token before", is_tried),
    ):
        yield f"it would be the share of the calls that {whose}", _shares(is_kept, among)
    exactly = _shares(calls.accepted[:, None] == places)
    yield "it would be the share of the calls that accept exactly so many", exactly


def _sum(given: Sequence[str], logged: Sequence[float]) -> str:
    """Return the sum of reported shares beside what it must be, where as many are reported as logged."""
    if len(given) != len(logged):
        return ""
    return f"their sum is {sum(map(_number, given)):.4g}, accepted/call is {sum(logged):.4g}"


def _totals(calls: LoggedCalls) -> tuple[float, float, float]:
    return float(len(calls.lengths)), float(calls.lengths.sum()), float(calls.accepted.sum())


def _places(calls: LoggedCalls) -> Floats:
    return np.arange(1.0, calls.lengths.max() + 1)[None, :]


def _shares(is_so: Booleans, among: Booleans | None = None) -> tuple[float, ...]:
    """Return the share of calls in each column, of those ``among``; NaN of none."""
    count = np.ones_like(is_so, dtype=float) if among is None else among.astype(float)
    with np.errstate(invalid="ignore"):
        return tuple(np.divide((is_so * count).sum(axis=0), count.sum(axis=0)).tolist())


def _fits(given: Sequence[str], values: Sequence[float]) -> bool:
    """Whether the values, rounded or cut to the given digits, are those given."""
    return len(given) == len(values) and all(
        abs(_number(one) - value) < _unit(one) for one, value in zip(given, values, strict=True)
    )


def _number(text: str) -> float:
    """Return a number that may be in per cent; NaN for what is none."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan


def _unit(text: str) -> float:
    """Return one unit of the last digit of a number."""
    digits = len(text.removesuffix("%").lower().partition("e")[0].partition(".")[2])
    return 10.0**-digits / (100 if text.endswith("%") else 1)
