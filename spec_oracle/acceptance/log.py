"""The acceptance log: one line of JSON for each call of one draft path, and what an engine reports of it.

``drafted`` (token ids), ``accepted`` (how many of them the rule accepted, before a stop token or a limit cuts
the completion), ``p`` and ``q`` (what target and drafter give each drafted token; q is 1 for drafts that were
not sampled). That is all that the token rule needs. Other rules depend on whole next-token distributions, by
three numbers per position, i = 0..L-1, that a recorder can log in their place (`digest`):

* ``surplus``: S_i = sum_x (w_i p(x) - q(x))+ for block verification, w_0 = 1, w_i = min(1, w_{i-1} p_i / q_i)
  (arXiv 2403.10444, eqs. 3 and 4);
* ``largest``: the largest probability of the target;
* ``entropy``: of the target, nats.

Where they are missing they are computed from ``target`` and ``draft``: L rows each (the target may have L+1),
a row either V probabilities or ``{"ids": [...], "probs": [...]}``, the likeliest tokens. Tokens outside
such a list share the rest of the probability in an unknown way, so that S_i is only bounded.

An engine also reports aggregates of its calls: a rate, a length or a counter (`read_reported`). The log has
every call they are made of, so that the two are equal or one is wrong (`compared`). A number is compared to
the digits in which it is given, rounded or cut.
"""

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from spec_oracle.arrays import Booleans, Floats, Integers, Json, Numbers
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.validation import is_real, is_whole

ROUNDING = 1e-4
"""By how much a row may miss the total of 1, or a probability exceed it."""

NO_REST = 1e-6
"""Probability outside a list of tokens that counts as none."""

Row = tuple[Integers, Floats]
"""Token ids and their probabilities."""

POSITIONS = "positions"
TOKENS = "tokens"
AGGREGATES = {
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
class LoggedCalls:
    """N calls, drafts padded to the longest, L tokens: ``p`` and ``q`` [N, L], p = 0 and q = 1 where padded.

    ``lengths`` and ``accepted`` int [N]; ``surplus`` [2, N, L], its lower and upper bound; ``largest`` and
    ``entropy`` [N, L]; each of the three is None unless it is known of every call. ``prompts`` [N] labels.
    Numbers are float64, or rationals in object arrays.
    """

    lengths: Integers
    accepted: Integers
    p: Numbers
    q: Numbers
    surplus: Numbers | None = None
    largest: Numbers | None = None
    entropy: Numbers | None = None
    prompts: tuple[Hashable, ...] = ()

    @property
    def is_draft(self) -> Booleans:
        """Where a token was drafted, bool [N, L]."""
        return np.arange(self.p.shape[1])[None, :] < self.lengths[:, None]


def read_calls(lines: Iterable[str], file: str = "") -> LoggedCalls:
    """Return the calls of a log, which a ``file`` of that name holds; empty lines are left out.

    Raises `InvalidInputError` that names file, line and field, and for a log without any drafted token.
    """
    at = f"{file}: " * bool(file)
    calls = [_call(line, f"{at}line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not any(call.length for call in calls):
        raise InvalidInputError(f"{at or 'log: '}it holds no call with drafted tokens")
    width = max(call.length for call in calls)

    def padded(name: str, value: float = 0.0) -> Floats:
        rows = [call.numbers[name] for call in calls]
        filled = np.full((*rows[0].shape[:-1], len(calls), width), value)
        for number, row in enumerate(rows):
            filled[..., number, : row.shape[-1]] = row
        return filled

    known = {name for name in _NUMBERS if all(name in call.numbers for call in calls)}
    return LoggedCalls(
        np.array([call.length for call in calls]),
        np.array([call.accepted for call in calls]),
        padded("p"),
        padded("q", 1.0),
        padded("surplus") if "surplus" in known else None,
        padded("largest", 1.0) if "largest" in known else None,
        padded("entropy") if "entropy" in known else None,
        tuple(call.prompt for call in calls),
    )


def digest(
    tokens: Sequence[int],
    target: Sequence[Row],
    draft: Sequence[Row],
    known: Mapping[str, Floats] | None = None,
) -> dict[str, Floats]:
    """Return the fields of a log that follow from the distributions along the drafted ``tokens``, [L] each.

    ``known`` fields (p, q) come first. ``surplus`` [2, L] are bounds, equal for whole rows; ``p``, ``q``,
    ``surplus`` and ``entropy`` are left out where the lists of likeliest tokens do not determine them.
    """
    found = {"largest": np.array([probs.max() for _, probs in target], dtype=np.float64)}
    for name, rows in (("p", target), ("q", draft)):
        places = [np.flatnonzero(ids == token) for token, (ids, _) in zip(tokens, rows, strict=True)]
        if all(place.size for place in places):
            probs = [row[1][place[0]] for row, place in zip(rows, places, strict=True)]
            found[name] = np.array(probs, dtype=np.float64)
    found |= known or {}
    if all(1 - probs.sum() <= NO_REST for _, probs in target):
        entropies = [scipy.special.entr(probs).sum() for _, probs in target]
        found["entropy"] = np.array(entropies, dtype=np.float64)
    if found.keys() >= {"p", "q"} and (found["q"] > 0).all():
        weights = block_weights(found["p"][None], found["q"][None])[0]
        bounds = [_surplus(*one) for one in zip(weights[:-1], target, draft, strict=True)]
        found["surplus"] = np.array(bounds).reshape(-1, 2).T
    return found


def block_weights(p: Numbers, q: Numbers) -> Numbers:
    """Return w_0 = 1, w_i = min(1, w_{i-1} p_i / q_i), [N, L+1], from p and q [N, L]."""
    ones = p.sum(axis=1) * 0 + 1  # of no tokens, too
    weights = [ones]
    for ratio in (p / q).T:
        weights.append(np.minimum(ones, weights[-1] * ratio))
    return np.stack(weights, axis=1)


def _surplus(weight: float, target: Row, draft: Row) -> tuple[float, float]:
    """Return bounds of sum_x (w p(x) - q(x))+ over the vocabulary.

    Over tokens in both lists it is known. Outside them at most all of w p counts, and, since the positive
    part is convex, at least that of the sums.
    """
    _, here, there = np.intersect1d(target[0], draft[0], assume_unique=True, return_indices=True)
    p, q = target[1][here], draft[1][there]
    known = float(np.maximum(weight * p - q, 0).sum())
    rest = [left if (left := 1 - float(row.sum())) > NO_REST else 0.0 for row in (p, q)]
    return known + max(0.0, weight * rest[0] - rest[1]), known + weight * rest[0]


@dataclass(frozen=True)
class LoggedCall:
    """One line of a log: the ``numbers`` of a draft of ``length`` tokens, by the names of the fields."""

    length: int
    accepted: int
    prompt: str
    numbers: Mapping[str, Floats]


_NUMBERS = ("p", "q", "surplus", "largest", "entropy")


def _call(line: str, where: str) -> LoggedCall:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where}: not JSON: {error}") from None
    if not isinstance(data, Mapping):
        raise InvalidInputError(f"{where}: expected an object, got {line.strip()[:60]}")
    for name in ("drafted", "accepted"):
        if name not in data:
            raise InvalidInputError(f"{where} has no field {name!r} (has {', '.join(data) or 'none'})")
    tokens = data["drafted"]
    if not isinstance(tokens, list) or not all(is_whole(token) and token >= 0 for token in tokens):
        is_padded = isinstance(tokens, list) and -1 in tokens
        padding = "; leave out -1, which no draft model proposed" * is_padded
        wrong = f"drafted: expected a list of token ids, got {tokens!r:.60}{padding}"
        raise InvalidInputError(f"{where}: {wrong}")
    accepted = data["accepted"]
    if not is_whole(accepted) or not 0 <= accepted <= len(tokens):
        bonus = "; leave the bonus token out" if accepted == len(tokens) + 1 else ""
        kind = "" if is_whole(accepted) else "an integer, "
        raise InvalidInputError(
            f"{where}: accepted: expected {kind}0..{len(tokens)}, got {accepted!r}{bonus}"
        )
    numbers = {
        name: _numbers(data[name], len(tokens), f"{where}: {name}", np.inf if name == "entropy" else 1.0)
        for name in _NUMBERS
        if data.get(name) is not None
    }
    if "surplus" in numbers:
        numbers["surplus"] = np.stack([numbers["surplus"]] * 2)
    found: dict[str, Floats] = {}
    if "target" in data and "draft" in data:
        target, draft = (_rows(data[name], len(tokens), f"{where}: {name}") for name in ("target", "draft"))
        found = digest(tokens, target, draft, {name: numbers[name] for name in numbers.keys() & {"p", "q"}})
    found |= numbers
    for name in ("p", "q"):
        if name not in found:
            rows_too = 'or rows ("target" and "draft") that list the drafted tokens'
            has = f"has no field {name!r} (has {', '.join(data)})" if name not in data else f"has no {name!r}"
            raise InvalidInputError(f"{where} {has}: give {len(tokens)} probabilities, {rows_too}")
    if not (found["q"] > 0).all():
        raise InvalidInputError(f"{where}: q: a drafted token has probability 0; log it at full precision")
    return LoggedCall(len(tokens), accepted, repr(data.get("prompt")), found)


def _numbers(values: Json, length: int, where: str, most: float) -> Floats:
    """Return numbers in [0, ``most``]; what rounding lifts above 1 is 1."""
    if not isinstance(values, list) or len(values) != length:
        raise InvalidInputError(f"{where}: expected a list of {length} numbers, got {values!r:.60}")
    for place, value in enumerate(values):
        if not (is_real(value) and 0 <= value <= most + ROUNDING):
            raise InvalidInputError(f"{where}[{place}]: expected 0 to {most:g}, got {value!r:.60}")
    return np.asarray(np.minimum(np.asarray(values, dtype=np.float64), most))


def _rows(rows: Json, length: int, where: str) -> list[Row]:
    if not isinstance(rows, list) or len(rows) < length:
        raise InvalidInputError(f"{where}: expected {length} rows, got {rows!r:.60}")
    return [_row(row, f"{where}[{place}]") for place, row in enumerate(rows[:length])]


def _row(row: Json, where: str) -> Row:
    listed = row if isinstance(row, Mapping) else None
    probs = row if listed is None else listed.get("probs")
    if not isinstance(probs, list) or not probs:
        raise InvalidInputError(f'{where}: expected V probabilities or {{"ids", "probs"}}, got {row!r:.60}')
    numbers = _numbers(probs, len(probs), where, 1.0)
    ids = [*range(len(probs))] if listed is None else listed.get("ids")
    if not isinstance(ids, list) or len(ids) != len(probs) or len(set(ids)) != len(ids):
        raise InvalidInputError(f"{where}: ids: expected {len(probs)} different token ids, got {ids!r:.60}")
    total = float(numbers.sum())
    if total > 1 + ROUNDING or (total < 1 - ROUNDING and listed is None):
        raise InvalidInputError(f"{where}: expected a total of 1, got {total:g}")
    return np.asarray(ids, dtype=np.int64), numbers


@dataclass(frozen=True)
class Aggregate:
    """A reported number, or a list of them: ``given``, and ``logged`` in its place."""

    name: str
    given: tuple[str, ...]
    logged: tuple[float, ...]
    agrees: bool


def is_last_of_prompt(calls: LoggedCalls) -> Booleans:
    """Return whether a call is the last one of its prompt, [N]."""
    last = {prompt: number for number, prompt in enumerate(calls.prompts)}
    return np.array([last[prompt] == number for number, prompt in enumerate(calls.prompts)])


def read_reported(text: str) -> Reported:
    """Read ``NAME=VALUE,...``; a value without a name continues the list before it.

    Raises `InvalidInputError` for other names, and for values that are no numbers.

    >>> read_reported("length=1.9,positions=0.6,0.3")
    {'length': ['1.9'], 'positions': ['0.6', '0.3']}
    """
    found: dict[str, list[str]] = {}
    for part in text.split(","):
        name, _, value = part.strip().rpartition("=")
        if name and name not in AGGREGATES:
            raise InvalidInputError(f"--reported: {unknown(name, AGGREGATES, 'name')}")
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
