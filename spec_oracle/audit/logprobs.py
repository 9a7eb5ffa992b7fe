"""Reported log-probabilities: which distribution they are of, and their errors.

A list of log-probabilities may be meant after sampling filters or before them: each is a *reading*.
`ReportedLogprobs` compares those reported of a completion with those expected, and names what is wrong.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.contracts.completion import Completion, Reported, Sampling, Token

WHOLE = 1e-3
"""How far from 1 a list may sum that claims to hold all tokens that can be sampled."""

SEEN_MASS = 1e-3
"""Tokens of less probability do not count for how much distributions vary: no test sees them."""

NEGLIGIBLE = 1e-3
"""Differences that no use of log-probabilities notices, nats."""

DIGITS, BFLOAT16 = 4, 2.0**-7
"""Digits after the point that may be all that is reported; the relative error of bfloat16, twice."""

Logs: TypeAlias = Mapping[Token, float]
"""Log-probabilities by token."""


@dataclass(frozen=True)
class Distribution:
    """A next-token distribution: ``probabilities`` [n] of ``tokens``, and ``other``, the mass of all others.

    Every probability is right up to a factor of exp(+-``slack``), ``other`` up to ``other_error``.
    """

    tokens: tuple[Token, ...]
    probabilities: NDArray[np.float64]
    other: float
    slack: float

    @property
    def other_error(self) -> float:
        """The error of ``other``, mass; 0 if filters rule out other tokens."""
        return math.expm1(self.slack) * (1 - self.other) if self.other else 0.0

    def index(self, token: Token) -> int:
        """Return the place of a token, -1 for one that is not listed."""
        return self.tokens.index(token) if token in self.tokens else -1


Reading: TypeAlias = Callable[[Logs, Sampling, int, float], Distribution | None]
"""(log-probabilities, sampling, how many were asked for, their error in nats); None if they are too few."""


def likeliest(logs: Logs, listed: int, sampled: Token) -> dict[Token, float]:
    """Return the likeliest of the tokens that are listed where one was ``sampled``.

    Servers list the sampled token beside the likeliest ones even if it is none of them: what is listed must
    not depend on it.
    """
    order = sorted(logs, key=lambda token: (-logs[token], token == sampled))
    return {token: logs[token] for token in order[:listed]}


def as_sampled(logs: Logs, _: Sampling, listed: int, error: float) -> Distribution | None:
    """Take probabilities as they are. A list shorter than was asked for holds all that can be sampled."""
    tokens, masses = _sorted(logs)
    total = float(masses.sum())
    if len(tokens) < listed:
        is_whole = abs(total - 1) < WHOLE + math.expm1(error)
        return Distribution(tokens, masses / total, 0.0, 2 * error) if is_whole else None
    return Distribution(tokens, masses / max(total, 1.0), max(0.0, 1 - total), error)


def unfiltered(
    logs: Logs, sampling: Sampling, listed: int, error: float, *, filters: bool = True
) -> Distribution | None:
    """Apply temperature, then top-k and top-p: the order of most engines.

    None where the list is too short: a temperature needs all tokens that pass the filters. Tokens that tie at
    a filter's edge, within the error, leave the distribution unknown too.
    """
    tokens, masses = _sorted(logs)
    top_k, top_p = (sampling.top_k, sampling.top_p) if filters else (0, 1.0)
    is_whole = len(tokens) < listed
    if top_k and not (is_whole and top_k >= len(tokens)):
        if top_k >= len(tokens) or masses[top_k - 1] <= masses[top_k] * math.exp(2 * error):
            return None
        tokens, masses, is_whole = tokens[:top_k], masses[:top_k], True
    if sampling.temperature != 1 and not is_whole:
        return None
    law = masses ** (1 / sampling.temperature)
    if is_whole:
        law /= law.sum()
    if top_p < 1:
        kept = _nucleus(law, top_p, 2 * error)
        if kept is None:
            return None
        tokens, law, is_whole = tokens[:kept], law[:kept] / law[:kept].sum(), True
    if not is_whole:
        return Distribution(tokens, law, max(0.0, 1 - float(law.sum())), error)
    return Distribution(tokens, law, 0.0, 2 * error / min(sampling.temperature, 1.0))


def _sorted(logs: Logs) -> tuple[tuple[Token, ...], NDArray[np.float64]]:
    """Return tokens and probabilities, the most probable first.

    Of tokens that tie the order is that of their ids: servers may list the sampled one first.
    """
    tokens = tuple(sorted(logs, key=lambda token: (-logs[token], str(token))))
    return tokens, np.exp([logs[token] for token in tokens])


def _nucleus(law: NDArray[np.float64], top_p: float, error: float) -> int | None:
    """Return how many tokens it takes to reach ``top_p``; None if they do not, or an edge decides."""
    reached = np.cumsum(law)
    kept = int(np.searchsorted(reached, top_p)) + 1
    is_known = kept <= len(law) and not np.any(abs(reached[:kept] - top_p) < error)
    return kept if is_known else None


UNFILTERED: Final = "before sampling filters"
READINGS: Final[Mapping[str, Reading]] = MappingProxyType(
    {
        "after sampling filters": as_sampled,
        UNFILTERED: unfiltered,
        "before sampling filters, which the server ignores": partial(unfiltered, filters=False),
    }
)


@dataclass(frozen=True)
class ReportedLogprobs:
    """A completion, what one-token requests list at each of its tokens, how many, and a tolerance in nats.

    Or what another ``source`` lists. ``drafts`` are the drafter's log-probabilities, where they are known.
    """

    completion: Completion
    expected: Sequence[Logs]
    listed: int
    tolerance: float
    source: str = "one-token requests"
    drafts: Sequence[Logs] = ()

    def fault(self, sampling: Sampling) -> str:
        """Say what is wrong, "" if nothing is."""
        reported, tokens = self.completion.reported, self.completion.tokens
        if len(reported) < len(tokens):
            return (
                f"a completion of {len(tokens)} tokens has {len(reported)} log-probabilities: "
                f"they are missing from token {len(reported) + 1} on"
            )
        # The token that ends a completion may be reported although it is no part of the completion.
        shows_end = self.completion.ended and reported[len(tokens) :][:1] != ()
        allowed = len(tokens) + (shows_end and reported[len(tokens)].token not in tokens)
        if len(reported) > allowed:
            return (
                f"a completion of {len(tokens)} tokens has {len(reported)} log-probabilities: "
                "the last are of tokens after its end"
            )
        for place, (entry, token) in enumerate(zip(reported, tokens, strict=False), start=1):
            if entry.token != token:
                return (
                    f"log-probability {place} is of token {entry.token!r}, the completion has {token!r} there"
                )
        wrong = self.differing()
        if not wrong:
            return ""
        worst = max(wrong, key=self._difference)
        said, expected = reported[worst].log, self.expected[worst].get(tokens[worst])
        return (
            f"{len(wrong)} of {len(tokens)} are not those of {self.source}: {self._kind(wrong, sampling)}; "
            f"token {worst + 1} has {_in_words(said)} as reported, {_in_words(expected)} by {self.source}"
        )

    def differing(self) -> list[int]:
        """Return the places, from 0 on, of tokens whose reported log-probabilities differ."""
        both = min(len(self.completion.reported), len(self.expected))
        return [place for place in range(both) if self._difference(place) > self.tolerance]

    def _difference(self, place: int) -> float:
        entry, token = self.completion.reported[place], self.completion.tokens[place]
        if entry.log is None:
            return math.inf
        own = {token: entry.log} if not entry.logs else {**entry.logs, token: entry.log}
        return difference(own, self.expected[place])

    def _kind(self, wrong: Sequence[int], sampling: Sampling) -> str:
        """Say which distribution they are of instead, as far as that is known."""
        reported = [self.completion.reported[place] for place in wrong]

        def all_are(of: Callable[[Reported, int], bool]) -> bool:
            return all(of(entry, place) for entry, place in zip(reported, wrong, strict=True))

        raw, as_sampled = "before temperature and filters", "after temperature and filters"
        kinds = {
            "they are missing": all_are(lambda entry, _: entry.log is None),
            "they are constant": len(wrong) > 1 and len({entry.log for entry in reported}) == 1,
            f"they are those {as_sampled}, one-token requests report those {raw}": all_are(
                lambda entry, place: self._is_filtered(entry, self.expected[place], sampling)
            ),
            f"they are those {raw}, one-token requests report those {as_sampled}": all_are(
                lambda entry, place: self._is_raw(entry, self.expected[place], sampling)
            ),
            "they are those of the previous token's place": all_are(partial(self._is_shifted, -1)),
            "they are those of the next token's place": all_are(partial(self._is_shifted, 1)),
            # Only some tokens are corrections; the first one never is.
            "they are those of a residual, as corrections are sampled from, not of the target": (
                len(wrong) < len(self.completion.tokens) - 1 and all_are(self._is_residual)
            ),
            f"they are rounded{self._rounded(wrong)}": bool(self._rounded(wrong)),
            self._unknown(): True,
        }
        return next(kind for kind, is_so in kinds.items() if is_so)

    def _rounded(self, wrong: Sequence[int]) -> str:
        """Say how differing log-probabilities are rounded, "" if rounding does not explain the difference."""
        tokens, reported = self.completion.tokens, self.completion.reported
        pairs = [(reported[place].log, self.expected[place].get(tokens[place])) for place in wrong]
        known = [(one, other) for one, other in pairs if one is not None and other is not None]
        if len(known) < len(pairs) or not np.isfinite(known).all():
            return ""
        logs, others = np.array(known).T
        for digits in range(DIGITS):
            is_whole = np.allclose(logs, np.round(logs, digits), rtol=0, atol=NEGLIGIBLE * 10.0**-digits)
            if is_whole and np.all(abs(logs - others) <= 0.5 * 10.0**-digits + self.tolerance):
                return f" to {digits} digits"
        is_half = not np.any(logs.astype(np.float32).view(np.uint32) & 0xFFFF)
        is_near = np.all(abs(logs - others) <= BFLOAT16 * abs(others) + self.tolerance)
        return " to bfloat16" if is_half and is_near else ""

    def _is_filtered(self, entry: Reported, row: Logs, sampling: Sampling) -> bool:
        law = READINGS["before sampling filters"](row, sampling, self.listed, self.tolerance)
        if law is None or entry.token is None or entry.log is None:
            return False
        with np.errstate(divide="ignore"):
            logs = dict(zip(law.tokens, np.log(law.probabilities).tolist(), strict=True))
        return difference(entry.logs or {entry.token: entry.log}, logs) <= self._widened(sampling)

    def _is_raw(self, entry: Reported, row: Logs, sampling: Sampling) -> bool:
        """Whether the log-probabilities are ``temperature`` times those listed, all less by one number."""
        shifts = [
            entry.logs[token] - sampling.temperature * log
            for token, log in row.items()
            if token in entry.logs
        ]
        return len(shifts) > 1 and max(shifts) - min(shifts) <= self._widened(sampling) and max(shifts) < 0

    def _is_shifted(self, shift: int, entry: Reported, place: int) -> bool:
        if not 0 <= place + shift < len(self.expected):
            return True
        if not entry.logs and entry.log is not None:
            token = self.completion.tokens[place + shift]
            return difference({token: entry.log}, self.expected[place + shift]) <= self.tolerance
        return difference(entry.logs, self.expected[place + shift]) <= self.tolerance

    def _is_residual(self, entry: Reported, place: int) -> bool:
        """Whether it is the residual by the drafter's own distribution; without it, whether a list looks so.

        In the list of a residual some tokens are more probable and some less. One number alone may be of
        anything.
        """
        row, token = self.expected[place], self.completion.tokens[place]
        if place < len(self.drafts) and token in row and entry.log is not None:
            left = {
                one: math.exp(log) - math.exp(self.drafts[place].get(one, -math.inf))
                for one, log in row.items()
            }
            whole = sum(mass for mass in left.values() if mass > 0)
            return left[token] > 0 and abs(entry.log - math.log(left[token] / whole)) <= 2 * self.tolerance
        more = [entry.logs[one] > log for one, log in row.items() if one in entry.logs]
        return any(more) and not (len(entry.logs) >= len(row) and all(more))

    def _unknown(self) -> str:
        """Say what they were compared with, if they are none of it."""
        drafts = "the residual by its draft_probs, " if self.drafts else ""
        return (
            "they are none of the distributions compared: before and after temperature and filters, of the "
            f"places before and after, {drafts}constants, rounded numbers"
        )

    def _widened(self, sampling: Sampling) -> float:
        return 2 * self.tolerance * max(1.0, sampling.temperature, 1 / sampling.temperature)


def difference(first: Logs, second: Logs) -> float:
    """Return the largest difference of log-probabilities, nats, of tokens that are not rare in one of them.

    A token that only one of them lists was less probable in the other than all that is listed there, or ruled
    out: infinite, if that is too little.
    """
    found = 0.0
    for one, other in ((first, second), (second, first)):
        for token, log in one.items():
            if log < math.log(SEEN_MASS):
                continue
            if token in other:
                found = max(found, abs(log - other[token]))
            elif len(other) >= len(one):
                # The token that was sampled may be listed beside the most probable ones: not the last counts.
                found = max(
                    found, log - sorted(other.values())[min(1, len(other) - 1)] if other else math.inf
                )
    return found


def _in_words(log: float | None) -> str:
    return "none" if log is None else f"{log:.4g}"
