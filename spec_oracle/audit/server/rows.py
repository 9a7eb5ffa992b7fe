"""From the log-probabilities that a server lists to the law by which it samples.

Some servers show probabilities as sampled, after temperature and filters; others show raw ones. Each is a
*reading*; which one holds is for draws to say.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.apis import Sampling, Token

FLOAT32_LOG = 1e-5
"""Rounding of a log-probability computed in float32 from logits of ordinary size, nats."""

WHOLE = 1e-3
"""How far from 1 a row may be that claims to list all tokens that can be drawn."""

_DIGITS = 6


@dataclass(frozen=True)
class Row:
    """The law of the next token: ``probabilities`` [n] of ``tokens``, and ``other``, the mass of all else.

    Every probability is right up to a factor of exp(+-``slack``), ``other`` up to ``other_error``.
    """

    tokens: tuple[Token, ...]
    probabilities: NDArray[np.float64]
    other: float
    slack: float

    @property
    def other_error(self) -> float:
        """What errors of listed tokens leave open of the rest, mass; nothing where filters rule it out."""
        return math.expm1(self.slack) * (1 - self.other) if self.other else 0.0

    def index(self, token: Token) -> int:
        """Return the place of a token, -1 for one that is not listed."""
        return self.tokens.index(token) if token in self.tokens else -1


Reading: TypeAlias = Callable[[Mapping[Token, float], Sampling, int, float], Row | None]
"""(log-probabilities, sampling, how many were asked for, their error in nats) -> row, None if unknown."""


def as_sampled(logs: Mapping[Token, float], sampling: Sampling, listed: int, error: float) -> Row | None:
    """Take probabilities as they are. A row shorter than was asked for lists all that can be drawn."""
    del sampling
    tokens, masses = _sorted(logs)
    total = float(masses.sum())
    if len(tokens) < listed:
        is_whole = abs(total - 1) < WHOLE + math.expm1(error)
        return Row(tokens, masses / total, 0.0, 2 * error) if is_whole else None
    return Row(tokens, masses / max(total, 1.0), max(0.0, 1 - total), error)


def raw(logs: Mapping[Token, float], sampling: Sampling, listed: int, error: float) -> Row | None:
    """Temperature, then top-k and top-p, on raw ones: the order of most engines.

    The row is None where the list is too short: a temperature needs all tokens that pass the filters. Tokens
    that tie at a filter's edge, within the error, leave the row unknown too.
    """
    tokens, masses = _sorted(logs)
    is_whole = len(tokens) < listed
    if sampling.top_k and not (is_whole and sampling.top_k >= len(tokens)):
        if not is_whole and sampling.top_k >= len(tokens):
            return None
        if masses[sampling.top_k - 1] <= masses[sampling.top_k] * math.exp(2 * error):
            return None
        tokens, masses, is_whole = tokens[: sampling.top_k], masses[: sampling.top_k], True
    if sampling.temperature != 1 and not is_whole:
        return None
    law = masses ** (1 / sampling.temperature)
    if is_whole:
        law /= law.sum()
    if sampling.top_p < 1:
        kept = _nucleus(law, sampling.top_p, 2 * error)
        if kept is None:
            return None
        tokens, law, is_whole = tokens[:kept], law[:kept] / law[:kept].sum(), True
    if not is_whole:
        return Row(tokens, law, max(0.0, 1 - float(law.sum())), error)
    return Row(tokens, law, 0.0, 2 * error / min(sampling.temperature, 1.0))


def raw_unfiltered(logs: Mapping[Token, float], sampling: Sampling, listed: int, error: float) -> Row | None:
    """Temperature alone: a server that ignores the filters it was asked for."""
    return raw(logs, Sampling(temperature=sampling.temperature), listed, error)


READINGS: Final[Mapping[str, Reading]] = MappingProxyType(
    {
        "as sampled": as_sampled,
        "raw": raw,
        "raw, filters ignored": raw_unfiltered,
    }
)


def rounding(logs: Iterable[float]) -> float:
    """Return the error of log-probabilities by their look, nats: half a last digit where they are rounded."""
    values = list(logs)
    for digits in range(_DIGITS):
        if all(round(value, digits) == value for value in values):
            return 0.5 * 10.0**-digits
    return FLOAT32_LOG


def _sorted(logs: Mapping[Token, float]) -> tuple[tuple[Token, ...], NDArray[np.float64]]:
    """Return tokens and probabilities, the most probable first."""
    tokens = tuple(sorted(logs, key=lambda token: -logs[token]))
    return tokens, np.exp([logs[token] for token in tokens])


def _nucleus(law: NDArray[np.float64], top_p: float, error: float) -> int | None:
    """Return how many tokens it takes to reach ``top_p``; None if they do not, or an edge decides."""
    reached = np.cumsum(law)
    kept = int(np.searchsorted(reached, top_p)) + 1
    if kept > len(law) or np.any(abs(reached[:kept] - top_p) < error):
        return None
    return kept
