"""A running server as the subject of an audit: the plan of requests, and the completions sampled so far."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.audit.results import UNTRIED, LawResult, Status
from spec_oracle.contracts.completion import Completion, Prefix, Token
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.distributions import Distributions, Weights
from spec_oracle.servers.checks.fields import hidden_number, hidden_penalty
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import (
    Ask,
    DraftCounts,
    Json,
    OutOfTimeError,
    RefusedError,
    impossible_counts,
)
from spec_oracle.statistics.streams import stream

# Tests of single tokens must detect so many times the TV of `joint`, `SERVER_ONE_TOKEN_TV` at most.
SERVER_ONE_TOKEN_COARSER: Final = 2.5
SERVER_TOKENS: Final = 4  # Tokens of the completions of `joint`.
# Tokens of the longer completions that are tried if none of `joint` drafts: some servers draft only for
# requests of more than 256 tokens.
SERVER_PROBED: Final = (256, 512)

NEEDS_PROBABILITIES = "the server reports no token ids with their log-probabilities"

UNCHECKED = "could not check that the server samples from the probabilities it reports: see plain-law"

HIDES_ENDS = "the server does not show the token that ends a text"
WITHOUT_ENDS = "give --field ignore_eos=true, if the server takes it, so that no text ends"

UNCONFIRMED = (
    "this contradicts the probabilities that the server reports, but plain-law could not confirm these; "
    "raise --budget"
)


def is_unchecked(context: Context) -> bool:
    """Whether an earlier check ran, and could not confirm the probabilities that the server reports."""
    plain, joint = (context.results.get(name) for name in ("plain-law", "joint"))
    if plain is not None and plain.status not in (Status.PASSED, *UNTRIED) and not is_unconfirmed(context):
        return True
    return isinstance(joint, LawResult) and joint.findings.is_reference_wrong


def is_unconfirmed(context: Context) -> bool:
    """Whether samples of `plain-law` agree with the reported probabilities, but are too few or too coarse."""
    plain = context.results.get("plain-law")
    return plain is not None and plain.status is Status.INCONCLUSIVE and plain.how is not None


@dataclass(frozen=True)
class ServerPlan:
    """The requests of an audit, as the user wants them.

    Completions have ``tokens`` tokens; there are ``requests`` of them at most, None for as many as detect a
    total variation of ``detect``. ``seeded``: each request has a seed of its own, so that a retry repeats it.
    ``assume_speculating``: the user knows that drafts are made, whatever the server reports. Completions of
    `long-texts` have ``long_tokens`` tokens, None for as many as it takes to see drafts. ``streams_too``:
    streamed completions are compared with others.
    """

    tokens: int = SERVER_TOKENS
    requests: int | None = None
    detect: float = effort.SAMPLER_TV
    seeded: bool = False
    assume_speculating: bool = False
    long_tokens: int | None = None
    streams_too: bool = False

    def __post_init__(self) -> None:
        for name, tokens in (("tokens", self.tokens), ("long_tokens", self.long_tokens)):
            if tokens is not None and tokens < 2:
                few = f"{name}: expected at least 2, got {tokens}"
                raise InvalidInputError(f"{few}; nothing speculates on the first")

    @property
    def coarse(self) -> float:
        """The total variation that tests of single tokens must detect."""
        return min(SERVER_ONE_TOKEN_COARSER * self.detect, effort.SERVER_ONE_TOKEN_TV)


@dataclass
class Completions:
    """Completions of ``length`` tokens, sampled from a server after prompts chosen at random.

    ``found`` is in the order of sampling; ``retried`` of them came after a failed attempt. ``stream`` is the
    seed and the name of the random stream that chooses prompts and seeds; ``fields`` are sent with each
    request. ``pace`` is in completions a second. ``drafts`` are the counts that the answers report,
    ``odd`` is the first answer whose counts are impossible, ``before`` is what the server had counted before
    the first request. ``counts`` has (drafted, accepted) of completions that only their limit ended.
    """

    server: Server
    length: int
    stream: tuple[int, str]
    seeded: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)
    found: list[Prefix] = field(default_factory=list, init=False)
    retried: int = field(default=0, init=False)
    drafts: DraftCounts = field(default=DraftCounts(0, 0), init=False)
    before: DraftCounts = field(default=DraftCounts(), init=False)
    odd: Completion | None = field(default=None, init=False)
    pace: float = field(default=0.0, init=False)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter, init=False)

    def sample(self, count: int, *, pilot: int = 0) -> list[Prefix]:
        """Sample so many more, and return them; completions that came before an error stay in ``found``."""
        before = len(self.found)
        for one in self.more(count, pilot):
            self.found.append(one)
        return self.found[before:]

    def more(self, count: int, pilot: int = 0) -> Iterator[Prefix]:
        """Yield so many further completions, for ``found``; in a ``pilot`` of so many progress is shown."""
        prompts = self.server.prompts
        numbers = self._rng.integers(len(prompts), size=count)
        seeds = self._rng.integers(2**31, size=count)
        if pilot:
            self.server.tell("pilot", len(self.found), pilot)
        if not self.found:
            self.before = self.server.drafts()
        asks = [
            Ask(prompts[n], self.length, int(seed) if self.seeded else None, fields=self.fields)
            for n, seed in zip(numbers, seeds, strict=True)
        ]
        for number, answer in zip(numbers, self.server.stream(asks), strict=True):
            yield int(number), answer.tokens
            self.retried += answer.is_doubtful
            self.drafts += DraftCounts(answer.drafted, answer.accepted)
            if self.odd is None and impossible_counts(answer):
                self.odd = answer
            is_whole = answer.finish == "length" and len(answer.tokens) == self.length
            if is_whole and answer.drafted is not None and answer.accepted is not None:
                self.counts[answer.drafted, answer.accepted] += 1

    def pilot(self, seconds: float) -> None:
        """Sample a few, for so many seconds at most, to know the ``pace``."""
        start, before = time.monotonic(), len(self.found)
        done, past = 0, 0.0
        while not done or (done < effort.SERVER_PILOT and past < seconds):
            some = min(self.server.client.limits.concurrency, effort.SERVER_PILOT - done)
            self.sample(some, pilot=effort.SERVER_PILOT)
            done, past = len(self.found) - before, time.monotonic() - start
        self.pace = done / max(past, 1e-9)

    def counted(self) -> DraftCounts:
        """Return the counts of drafts that the answers report, or else the server's counters."""
        if self.drafts.accepted is not None:
            return self.drafts
        return self.server.drafts().since(self.before)

    @cached_property
    def _rng(self) -> np.random.Generator:
        return stream(*self.stream)

    def after(self, number: int) -> list[tuple[Token, ...]]:
        """Return the completions after one prompt."""
        return [tokens for prompt, tokens in self.found if prompt == number]


@dataclass
class ServerSubject:
    """A server under audit.

    ``name`` is its address, ``seed`` that of the audit's own choices. ``reference`` serves the same model
    without speculation, None without one. ``draft`` is the draft model: its probabilities only order the
    tokens that are judged. ``record`` is called with each long completion, its known distributions, and those
    of the draft. ``sampled_apart`` are completions of the first prompt, sampled at other times than those of
    `joint`; ``grammar`` has the fields of a grammar, if the server knows one. Only completions of
    ``drafts_from`` tokens or more draft, as far as is known; None if shorter ones do, or none.
    """

    name: str
    server: Server
    plan: ServerPlan = field(default_factory=ServerPlan)
    reference: Server | None = None
    facts: Facts = NOTHING_DECLARED
    seed: int = 0
    draft: Server | Weights | None = None
    record: Callable[[Prefix, Distributions, Distributions | Weights | None], object] = lambda *_: None
    sampled_apart: list[tuple[Token, ...]] = field(default_factory=list)
    grammar: Mapping[str, Json] = field(default_factory=dict)
    drafts_from: int | None = None
    kind: ClassVar[str] = "server"
    num_paths: ClassVar[int] = 1
    place: ClassVar[str] = ""
    call_form: ClassVar[str] = ""
    carries_state: ClassVar[bool] = False
    drafts: ClassVar[None] = None
    is_rerunnable: ClassVar[bool] = False  # `spec-oracle audit` takes no server

    def plain_call(self, seed: int) -> None:
        """Do nothing: a server that does not answer was reported when it was connected."""

    @property
    def left_out(self) -> AbstractSet[str]:
        """Checks that the user leaves out, and `joint` where only longer completions draft."""
        by_user = self.facts.failures.reasons.keys() - self.facts.failures.by_user
        return by_user | ({"joint"} if self.drafts_from else set())

    def probe_drafts(self) -> None:
        """Find out whether longer completions draft, where those of the plan's length do not."""
        if not self.server.listed or self.completions.counted().drafted != 0:
            return
        for length in SERVER_PROBED:
            probe = Completions(self.server, length, (self.seed, f"server/probe/{length}"))
            with suppress(OutOfTimeError, RefusedError):
                probe.sample(len(self.server.prompts))
            if probe.found and probe.counted().drafted:
                self.drafts_from = length
                return

    def why_no_rows(self, tokens: int) -> str:
        """Say why the next-token distributions along so many tokens are not known, "" if they are."""
        if not self.server.listed:
            return NEEDS_PROBABILITIES
        if not (fields := self.server.sampling.fields):
            return ""
        hidden = hidden_number(fields, tokens) or self._hidden_penalty
        return f"one-token requests do not show what `{hidden}` does to generated tokens" if hidden else ""

    @cached_property
    def _hidden_penalty(self) -> str:
        return hidden_penalty(self.distributions)

    @property
    def long_tokens(self) -> tuple[int, ...]:
        """Lengths of the completions of `long-texts`, in turn; a long one, too, if drafts are not counted."""
        if self.plan.long_tokens or self.drafts_from:
            return (self.plan.long_tokens or self.drafts_from or 0,)
        if self.completions.found and self.completions.counted().drafted is None:
            return (effort.SERVER_LONG_TOKENS, SERVER_PROBED[-1])
        return (effort.SERVER_LONG_TOKENS,)

    @cached_property
    def completions(self) -> Completions:
        """The completions of `joint`; other checks compare theirs with them."""
        return Completions(self.server, self.plan.tokens, (self.seed, "server/joint"), self.plan.seeded)

    @cached_property
    def distributions(self) -> Distributions:
        """The next-token distributions of target-only decoding, as the server reports them."""
        return Distributions(self.server, self.reference)
