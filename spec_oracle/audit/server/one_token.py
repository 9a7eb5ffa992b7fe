"""Plain decoding as a server shows it: rows from one-token requests, which have nothing to speculate on."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spec_oracle.adapters.servers.apis import Ask, Token
from spec_oracle.audit.server.rows import READINGS, Row, rounding
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.server import Context, Server

REPEATS = 8
"""How often a row is asked for to see how much it varies."""

SEEN_MASS = 1e-3
"""Tokens of less probability do not count for how much rows vary: no test sees them."""

CHUNK = 256
SHOWN = 32
"""Log-probabilities by whose look it is told how they are rounded."""

Draw = tuple[Context, Token]


@dataclass
class PlainRows:
    """The rows of a server by context, each asked for once.

    ``reading`` is the name of one of `READINGS`; ``noise`` is by how much log-probabilities differed when
    rows were asked for again, nats. ``drafted`` counts tokens that one-token requests drafted: none, or they
    are no plain decoding.
    """

    server: Server
    reading: str = next(iter(READINGS))
    noise: float = 0.0
    drafted: int = field(default=0, init=False)
    _logs: dict[Context, Mapping[Token, float] | None] = field(default_factory=dict, init=False)
    _values: list[float] = field(default_factory=list, init=False)

    def fetch(self, contexts: Iterable[Context]) -> None:
        """Ask for the rows that are not known yet."""
        missing = [context for context in dict.fromkeys(contexts) if context not in self._logs]
        for start in range(0, len(missing), CHUNK):
            chunk = missing[start : start + CHUNK]
            for context, logs in zip(chunk, self._listed(chunk), strict=True):
                self._logs[context] = logs
                if logs and len(self._values) < SHOWN:
                    self._values += logs.values()

    def logs(self, context: Context) -> Mapping[Token, float]:
        """Return what is listed after a context, log-probabilities; nothing where the server shows none."""
        self.fetch([context])
        return self._logs[context] or {}

    def row(self, context: Context) -> Row | None:
        """Return the law after a context; None where the server does not show enough of it."""
        logs = self.logs(context)
        if not logs:
            return None
        return READINGS[self.reading](logs, self.server.sampling, self.server.listed, self.error)

    @property
    def asked(self) -> int:
        """How many rows were asked for."""
        return len(self._logs)

    @property
    def error(self) -> float:
        """By how much log-probabilities may be off, nats: rounding, and the noise that was measured."""
        return self.noise + rounding(self._values)

    def draws(self, contexts: Sequence[Context]) -> list[Draw]:
        """Draw one token after each context, asked for as in a text: no probabilities are shown."""
        found = self.server.complete([Ask(self.server.prompt(context), 1) for context in contexts])
        self.drafted += sum(done.drafted or 0 for done in found)
        for done in found:
            if len(done.tokens) != 1:
                raise ContractError(f"{len(done.tokens)} tokens where one was asked for: {done.tokens!r}")
        return [(context, done.tokens[0]) for context, done in zip(contexts, found, strict=True)]

    def measure_noise(self, contexts: Sequence[Context]) -> None:
        """Ask for rows again, mixed and at once, as batches change; keep the largest difference."""
        self.fetch(contexts)
        for logs in (self._listed(contexts) for _ in range(REPEATS - 1)):
            for context, other in zip(contexts, logs, strict=True):
                known = self._logs[context]
                if known and other:
                    self.noise = max(self.noise, _difference(known, other))

    def choose_reading(self, draws: Sequence[Draw]) -> None:
        """Choose the reading under which one-token draws are most probable."""
        self.reading = max(READINGS, key=lambda name: self._log_likelihood(name, draws))

    def _log_likelihood(self, reading: str, draws: Sequence[Draw]) -> float:
        total = 0.0
        for context, token in draws:
            logs = self._logs[context]
            row = logs and READINGS[reading](logs, self.server.sampling, self.server.listed, self.error)
            if not row:
                return -math.inf
            place = row.index(token)
            mass = row.other if place < 0 else row.probabilities[place]
            # A token that a reading rules out costs much, but does not make all readings alike.
            total += math.log(max(mass, 1e-9))
        return total

    def _listed(self, contexts: Sequence[Context]) -> list[Mapping[Token, float] | None]:
        server = self.server
        asks = [Ask(server.prompt(context), 1, listed=server.listed) for context in contexts]
        found = server.complete(asks)
        self.drafted += sum(done.drafted or 0 for done in found)
        return [done.row for done in found]


def _difference(first: Mapping[Token, float], second: Mapping[Token, float]) -> float:
    """Return the largest difference of log-probabilities that both rows list, nats."""
    seen = math.log(SEEN_MASS)
    both = [(first[token], second[token]) for token in first.keys() & second.keys()]
    return max((abs(a - b) for a, b in both if max(a, b) > seen), default=0.0)
