"""Target-only decoding as a server reports it: next-token distributions from one-token requests.

A request for one token has nothing to speculate on. Some servers list probabilities as sampled, after
temperature and filters; others list them before. Each is a *reading*; which one holds is for samples to say.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.scoring import Scoring
from spec_oracle.adapters.servers.server import Server
from spec_oracle.audit import effort
from spec_oracle.audit.server.ratios import DEVIATIONS
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.server import Ask, Completion, Prefix, Sampling, Token

WHOLE = 1e-3
"""How far from 1 a list may sum that claims to hold all tokens that can be sampled."""

FLOAT32_LOG = 1e-5
"""Rounding of a log-probability computed in float32 from logits of ordinary size, nats."""

SEEN_MASS = 1e-3
"""Tokens of less probability do not count for how much distributions vary: no test sees them."""

_DIGITS = 6
CHUNK = 256
SHOWN = 32
"""Log-probabilities from whose digits it is read how they are rounded."""

Logs: TypeAlias = Mapping[Token, float]
"""Log-probabilities by token."""


@dataclass(frozen=True)
class Distribution:
    """Of the next token: ``probabilities`` [n] of ``tokens``, and ``other``, the mass of all else.

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


Reading: TypeAlias = Callable[[Logs, Sampling, int, float], Distribution | None]
"""(log-probabilities, sampling, how many were asked for, their error in nats); None if they are too few."""


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
    """Return tokens and probabilities, the most probable first."""
    tokens = tuple(sorted(logs, key=lambda token: -logs[token]))
    return tokens, np.exp([logs[token] for token in tokens])


def _nucleus(law: NDArray[np.float64], top_p: float, error: float) -> int | None:
    """Return how many tokens it takes to reach ``top_p``; None if they do not, or an edge decides."""
    reached = np.cumsum(law)
    kept = int(np.searchsorted(reached, top_p)) + 1
    is_known = kept <= len(law) and not np.any(abs(reached[:kept] - top_p) < error)
    return kept if is_known else None


READINGS: Final[Mapping[str, Reading]] = MappingProxyType(
    {
        "after sampling filters": as_sampled,
        "before sampling filters": unfiltered,
        "before sampling filters, which the server ignores": partial(unfiltered, filters=False),
    }
)


def largest_difference(first: Logs, second: Logs) -> float:
    """Return the largest difference of log-probabilities that both list, nats."""
    seen = math.log(SEEN_MASS)
    both = [(first[token], second[token]) for token in first.keys() & second.keys()]
    return max((abs(a - b) for a, b in both if max(a, b) > seen), default=0.0)


def rounding(logs: Iterable[float]) -> float:
    """Return the error of log-probabilities by their digits, nats: half a last one where they are rounded."""
    values = list(logs)
    rounded = (d for d in range(_DIGITS) if all(round(value, d) == value for value in values))
    return next((0.5 * 10.0**-digits for digits in rounded), FLOAT32_LOG)


@dataclass
class Distributions:
    """The next-token distributions of a server by prefix, each asked for once.

    ``drafted`` counts tokens that one-token requests drafted: none, or they are not target-only decoding.
    ``reference`` serves the same model without speculation, None if none is known. ``along`` is what is asked
    for those along a completion, and how it scores prompts, None if it does not; None as long as not known.
    ``differ``: by how much probabilities along completions differ when asked for again, largest ratio - 1.
    """

    server: Server
    reference: Server | None = None
    drafted: int = field(default=0, init=False)
    along: tuple["Distributions", Scoring | None] | None = field(default=None, init=False)
    logs: dict[Prefix, Logs | None] = field(default_factory=dict, init=False)
    differ: list[float] = field(default_factory=list, init=False)

    def after(self, prefix: Prefix) -> Distribution | None:
        """Return the distribution after a prefix; None where the server does not show enough of it."""
        self.fetch([prefix])
        return self._read(self.logs[prefix], self.reading, self.error)

    def fetch(self, prefixes: Iterable[Prefix], *, together: bool = False) -> None:
        """Ask for the distributions that are not known yet, ``together`` in one request if possible."""
        missing = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self.logs]
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            answers = self._stream(some, self.server.listed, together=together)
            self.logs.update((one, answer.logs) for one, answer in zip(some, answers, strict=True))

    def ask(self, prefix: Prefix, listed: int) -> Ask:
        """Return the request for the token after a prefix."""
        number, tokens = prefix
        text: Any = (*self.server.prompts[number], *tokens)  # token ids, where a server lists probabilities
        return Ask(text, 1, listed=listed)

    def _stream(self, some: Sequence[Prefix], listed: int, *, together: bool = False) -> Iterator[Completion]:
        ask = self.server.together if together else self.server.stream
        for answer in ask([self.ask(prefix, listed) for prefix in some]):
            self.drafted += answer.drafted or 0
            yield answer

    def _until(self) -> float:
        """Return when to stop asking for what is only worth a part of the time."""
        now = time.monotonic()
        return now + effort.SERVER_READING_PART * (self.server.client.end - now)

    def _read(self, logs: Logs | None, reading: str, error: float) -> Distribution | None:
        return READINGS[reading](logs, self.server.sampling, self.server.listed, error) if logs else None

    @cached_property
    def reading(self) -> str:
        """The name of the reading under which one-token samples are most probable."""
        near, until, samples = self.near(), self._until(), list[tuple[Prefix, Token]]()
        for _ in range(effort.SERVER_READING_SAMPLES):
            samples += self.samples(near)
            if time.monotonic() > until:
                break
        return self.most_likely_reading(samples)

    def most_likely_reading(self, samples: Sequence[tuple[Prefix, Token]]) -> str:
        """Return the name of the reading under which tokens after known prefixes are most probable."""
        return max(READINGS, key=lambda reading: self._log_likelihood(reading, samples))

    def near(self) -> list[Prefix]:
        """Return the prompts, and the likeliest prefixes one token behind; none that ends a completion."""
        roots: list[Prefix] = [(number, ()) for number in range(len(self.server.prompts))]
        self.fetch(roots)
        listed = [(log, root, token) for root in roots for token, log in (self.logs[root] or {}).items()]
        children = [(n, (token,)) for _, (n, _), token in sorted(listed, key=lambda entry: -entry[0])]
        open_ = [child for child in children if child[1][0] not in self.server.ends]
        nearest = open_[: max(0, effort.SERVER_NEAR - len(roots))]
        self.fetch(nearest)
        return [*roots, *nearest]

    def samples(self, prefixes: Sequence[Prefix]) -> Iterator[tuple[Prefix, Token]]:
        """Sample one token after each prefix, asked for as in a completion: no probabilities are shown."""
        for prefix, answer in zip(prefixes, self._stream(prefixes, listed=0), strict=True):
            if len(answer.tokens) != 1:
                raise ContractError(f"{len(answer.tokens)} tokens where one was asked for: {answer.tokens!r}")
            yield prefix, answer.tokens[0]

    def _log_likelihood(self, reading: str, samples: Sequence[tuple[Prefix, Token]]) -> float:
        total, error = 0.0, self.rounding
        for prefix, token in samples:
            law = self._read(self.logs[prefix], reading, error)
            if law is None:
                return -math.inf
            place = law.index(token)
            mass = law.other if place < 0 else law.probabilities[place]
            # A token that a reading rules out costs much, but does not make all readings alike.
            total += math.log(max(mass, 1e-9))
        return total

    @property
    def error(self) -> float:
        """By how much log-probabilities may be off, nats: rounding, and the noise that was measured."""
        return self.noise + self.rounding

    @cached_property
    def noise(self) -> float:
        """By how much log-probabilities differ when they are asked for again, mixed and at once, nats."""
        near, until, noise = self.near(), self._until(), 0.0
        for _ in range(effort.SERVER_NOISE_REPEATS - 1):
            for prefix, answer in zip(near, self._stream(near, self.server.listed), strict=True):
                noise = max(noise, largest_difference(self.logs[prefix] or {}, answer.logs or {}))
            if time.monotonic() > until:
                break
        return noise

    def ask_again(self, prefixes: Sequence[Prefix]) -> None:
        """Ask again for some of the distributions that were asked for last, in another order.

        What a server computes depends on what else is in the same batch.
        """
        count = max(1, effort.SERVER_PILOT - len(self.differ))
        chosen = np.random.default_rng(len(self.differ)).permutation(len(prefixes))[:count]
        some = [prefixes[place] for place in chosen]
        for prefix, answer in zip(some, self._stream(some, self.server.listed), strict=True):
            self.differ.append(math.expm1(largest_difference(self.logs[prefix] or {}, answer.logs or {})))

    @property
    def is_noisy(self) -> bool:
        """Whether equal requests differ: then a token may come that a filter rules out in another one."""
        return self.noise > 0 or max(self.differ, default=0.0) > math.expm1(2 * self.rounding)

    @property
    def relative_error(self) -> float:
        """By how much ratios of equal requests' probabilities differ from 1: a bound of the mean over tokens.

        As long as too few were asked for again, that of the largest difference after the prompts.
        """
        if len(self.differ) < effort.SERVER_PILOT // 2:
            return math.expm1(2 * self.error)
        differ = np.array(self.differ)
        half = DEVIATIONS * float(differ.std(ddof=1)) / math.sqrt(len(differ))
        return float(differ.mean()) + half + math.expm1(2 * self.rounding)

    @property
    def rounding(self) -> float:
        """By how much log-probabilities are rounded, nats."""
        listed = (log for logs in self.logs.values() for log in (logs or {}).values())
        return rounding(islice(listed, SHOWN))

    @property
    def uncertainty(self) -> str:
        """Say why what is reported leaves open too much, and what would help."""
        tv = math.expm1(self.error) / 2
        bound = f"which counts as its own noise: up to {tv:.2g} in total variation a token"
        if self.noise > self.rounding:
            differ = f"the server's probabilities differ by {self.noise:.2g} nats between equal requests"
            return f"{differ}, {bound}; try one slot, no batching, full precision, or a larger --detect"
        rounds = f"the server's log-probabilities are accurate to {self.rounding:.2g} nats"
        return f"{rounds}, {bound}; ask it for more digits, or use a larger --detect"
