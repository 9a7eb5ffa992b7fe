"""The check `long-texts`: every token of long completions is a sample of its own next-token distribution.

Completions of 64 tokens and more are too many to count one by one. Each of their tokens is compared with the
next-token distribution that a one-token request reports after the same tokens, in three orders of the
vocabulary: by the target's probability p; by p/q, q of the draft model behind ``--draft``; and with the token
first that an n-gram drafter proposes. `spec_oracle.statistics.long_completions` explains what each detects.
"""

import math
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Final

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import Distribution, Logs
from spec_oracle.audit.long_tokens import N_GRAM, RATIO, is_decided, result_of_tokens, tokens_needed
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    Status,
    inconclusive,
    not_asked,
    remarked,
    with_findings,
)
from spec_oracle.contracts.completion import Prefix, Prompt, Token
from spec_oracle.servers.checks import subject as subjects
from spec_oracle.servers.checks.conclusion import never_happened, unless_unconfirmed
from spec_oracle.servers.checks.distributions import Distributions, Weights, ids_after
from spec_oracle.servers.checks.subject import Completions, ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import OutOfTimeError, RefusedError, ServerError, prefixes_of
from spec_oracle.statistics.long_completions import (
    BY_P,
    Scored,
    TokenEvidence,
    by,
    joined,
    point_masses,
    proposed_along,
)

SHORTEST: Final = 8
"""Tokens of a completion that a server may not refuse."""

LAST: Final = 4
"""Tokens that are shown before one that cannot be."""


def long_texts(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge long completions token by token, in several orders, until the evidence or the time suffices."""
    server, plan = subject.server, subject.plan
    lengths = subject.long_tokens
    if why := subject.why_no_rows(max(lengths)):
        return not_asked(why)
    if subjects.is_unchecked(context):
        return inconclusive(subjects.UNCHECKED)
    long = Completions(server, lengths[0], (context.seed, "server/long-texts"), plan.seeded)
    drafts = Distributions(subject.draft) if isinstance(subject.draft, Server) else subject.draft
    uniforms = context.stream("server/long-texts/uniforms")
    read = JudgedCompletions(subject.distributions, drafts, uniforms, knows_positions=True)
    judged = list[Prefix]()
    is_alone = "joint" in subject.left_out
    finest = plan.detect if is_alone and drafts is None else min(plan.coarse, effort.SERVER_DISTANCES_TV)
    needed = tokens_needed(finest / len(lengths), context.rate)
    ended = ""
    longest = Longest()
    with closing(_in_advance(long, lengths, longest, subject.distributions)) as coming:
        while not (
            is_decided(read, context.rate) or read.suffices(needed, plan.detect * is_alone, context.rate)
        ):
            if read.completions >= effort.SERVER_PILOT and not read.evidence.tokens:
                break
            try:
                new = next(coming)
                read.window = longest.window(server.prompts)
                read.add(new)
                judged += new
                while is_decided(read, context.rate) and subject.distributions.next_reading():
                    read = replace(read)
                    read.add(judged)
                for completion in new:
                    subject.record(completion, read.distributions, drafts)
            except ServerError as error:
                if not read.evidence.tokens:
                    raise
                ended = "" if isinstance(error, OutOfTimeError) else str(error)
                break
            server.tell("long-texts", read.evidence.tokens, needed)
    coarse, doubtful = plan.coarse if is_alone else 2 * plan.coarse, subject.distributions.uncertainty
    coarse += subject.distributions.relative_error
    result = result_of_tokens(read, coarse, context.rate, ended=ended, uncertainty=doubtful)
    if is_alone and result.status is Status.PASSED:
        result = _as_verdict(subject, read, long, result, context.rate)
    return unless_unconfirmed(result, context)


def _in_advance(
    long: Completions, lengths: Sequence[int], longest: "Longest", distributions: Distributions
) -> Generator[list[Prefix], None, None]:
    """Yield completions of several lengths in turn, as long as the server allows.

    Further ones are sampled meanwhile, where another server has the distributions.
    """
    width, turn = long.server.client.limits.concurrency, cycle(lengths)

    def some() -> list[Prefix]:
        return longest.of(long, next(turn), width)

    yield some()
    if distributions.along is None or distributions.along[0] is distributions:
        while True:
            yield some()
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(some)
        while True:
            found, coming = coming.result(), other.submit(some)
            yield found


@dataclass
class Longest:
    """The longest completions that a server allows: ``allowed`` tokens it did, ``refused`` it did not."""

    allowed: int = 1
    refused: int | None = None

    def window(self, prompts: Sequence[Prompt]) -> int | None:
        """Return how many tokens the longest context has, prompt and completion; None if not known."""
        is_found = self.refused is not None and self.refused - self.allowed == 1
        return self.allowed + max(map(len, prompts)) if is_found else None

    def of(self, completions: Completions, length: int, count: int) -> list[Prefix]:
        """Sample completions of a length; where that is refused, of the longest that is not, by bisection."""
        while True:
            completions.length = length if self.refused is None else min(length, self.refused - 1)
            if self.refused is not None and self.refused - self.allowed > 1 and length > self.allowed:
                completions.length = (self.allowed + self.refused) // 2
            try:
                found = completions.sample(count)
            except RefusedError:
                self.refused = completions.length
                if self.refused <= SHORTEST:
                    raise
                continue
            self.allowed = max(self.allowed, completions.length)
            return found


def _as_verdict(
    subject: ServerSubject, read: "JudgedCompletions", long: Completions, result: CheckResult, rate: float
) -> CheckResult:
    """Return the result where no other check says whether completions are right: it must detect enough."""
    plan, drafts, reason = subject.plan, long.counted(), ""
    if not (plan.assume_speculating and drafts.accepted is None):
        reason = never_happened(drafts)
    if not reason and not read.suffices(0, plan.detect, rate):
        reason = f"that is not {plan.detect:g} yet; raise --budget or --detect"
    scope = result.remarks.scope
    if drafts.drafted is not None:
        scope = (*scope, f"{drafts.drafted:,.0f} tokens drafted, {drafts.accepted:,.0f} accepted")
    least = max(read.detected(rate))
    found = Findings(smallest_detectable_tv=least)
    measured = replace(result.measured, tokens=long.length, detectable=least if least < 1 else None)
    result = replace(result, measured=measured)
    result = with_findings(remarked(result, scope=scope), found)
    if reason:
        result = replace(result, status=Status.INCONCLUSIVE, detail=f"{reason} ({result.detail})")
    return result


@dataclass
class JudgedCompletions:
    """Completions whose tokens were compared with next-token distributions.

    ``ruled_out`` is a token that filters rule out, "" if none came: that is a proof. ``knows_positions``:
    whether the prompts are all that stands before the completions, so that places may count them. ``window``
    is how many tokens the longest context has, None if the server did not refuse a longer one.
    """

    distributions: Distributions
    drafts: Distributions | Weights | None
    rng: np.random.Generator
    knows_positions: bool = False
    window: int | None = None
    completions: int = field(default=0, init=False)
    ruled_out: str = field(default="", init=False)

    def __post_init__(self) -> None:
        names = [*([RATIO] if self.drafts else []), N_GRAM]
        self.evidence = TokenEvidence(names, self.rng, knows_positions=self.knows_positions)

    def detected(self, rate: float) -> list[float]:
        """Return which TV a token is detected by p and by p/q."""
        found = self.evidence.detects(rate)
        return [found.get(order, math.inf) for order in (BY_P, *([by(RATIO)] if self.drafts else []))]

    def suffices(self, tokens: int, detect: float, rate: float) -> bool:
        """Whether there are so many tokens, and what verification gets wrong is detected from ``detect`` on.

        0 for anything. Without a drafter's probabilities all that is distributed otherwise must be detected.
        """
        if self.evidence.tokens < tokens:
            return False
        if not detect or self.drafts is None:
            return not detect or max(self.detected(rate)) <= detect
        bets = [bet for bet in self.evidence.bets if bet.order == by(RATIO)]
        return all(bet.detects(rate) <= detect or bet.largest <= detect for bet in bets)

    def add(self, completions: Sequence[Prefix]) -> None:
        """Judge further completions; asks for the distributions at all their tokens at once.

        First tokens are left out: nothing speculates on them.
        """
        for known in (self.distributions, self.drafts):
            if known is not None:
                known.fetch_along(completions)
        if scored := [self.scored(number, tokens) for number, tokens in completions if len(tokens) > 1]:
            self.evidence.add(joined(scored))
        self.completions += len(completions)

    def scored(self, number: int, tokens: tuple[Token, ...], start: int = 1) -> Scored:
        """Return the tokens of a completion, each in its own distribution, from one of them on."""
        laws = self.distributions.after_each(prefixes_of((number, tokens), start))
        return self.scored_in(laws, number, tokens)

    def scored_in(
        self, laws: Sequence[Distribution | None], number: int, tokens: tuple[Token, ...]
    ) -> Scored:
        """Return the last tokens of a completion, each in its own of the distributions ``laws``."""
        server, start = self.distributions.server, len(tokens) - len(laws)
        prefixes = prefixes_of((number, tokens), start)
        cells = 1 + max((len(law.tokens) for law in laws if law), default=0)
        masses, doubt = np.full((len(laws), cells), np.nan), np.zeros(len(laws))
        relative, differ = np.full(len(laws), math.inf), self.distributions.relative_error
        came, proposed = np.full(len(laws), cells - 1), list[int | None]()
        drafts = np.full((len(laws), cells), np.nan)
        before = len(server.prompts[number])
        follow = proposed_along(ids_after(server, (number, tokens)), before + start)[:-1]
        for place, (prefix, law, follows) in enumerate(zip(prefixes, laws, follow, strict=True)):
            proposed.append(None)
            if law is None:
                continue
            if (cell := law.index(tokens[place + start])) >= 0:
                came[place] = cell
            elif not law.other and not self._is_ruled_out(prefix, tokens[place + start]):
                continue
            masses[place] = in_cells(law.probabilities, law.other, cells)
            if law.other:
                doubt[place] = min(law.other_error, differ * (1 - law.other))
            else:
                relative[place] = min(math.expm1(law.slack), differ)
                doubt[place] = relative[place] / 2
            if self.drafts is not None and (logs := self.drafts.logs[prefix]):
                drafts[place] = in_cells(*_of_draft(law, logs), cells)
            if follows is not None and law.index(follows) >= 0:
                proposed[place] = law.index(follows)
        q = {RATIO: drafts, N_GRAM: point_masses(proposed, cells)}
        orders = {name: q[name] for name in self.evidence.drafts}
        places = np.arange(start, len(tokens))
        known = before + places if self.knows_positions else None
        left = None if self.window is None else np.maximum(self.window - 1 - before - places, -1)
        return Scored(masses, came, orders, doubt, np.maximum(places, 1), relative, known, left)

    def _is_ruled_out(self, prefix: Prefix, token: Token) -> bool:
        """Whether filters rule a token out for certain; where equal requests differ, noise may do that."""
        if self.distributions.is_noisy:
            return False
        number, tokens = prefix
        after = f"token {len(tokens) + 1} after prompt {number + 1}, behind {list(tokens[-LAST:])!r}"
        self.ruled_out = f"token {token!r} came as {after}, where it has probability 0"
        return True


def in_cells(listed: Floats, other: float, cells: int) -> Floats:
    """Return [C]: the tokens that are listed, zeros, and all others."""
    return np.concatenate([listed, np.zeros(cells - 1 - len(listed)), [other]])


def _of_draft(law: Distribution, logs: Logs) -> tuple[Floats, float]:
    """Return what a drafter gives to the tokens that the target lists, and to all others.

    Filters rule the others out for drafts, too.
    """
    q = np.exp([logs.get(token, -math.inf) for token in law.tokens])
    if not law.other and q.any():
        return q / q.sum(), 0.0
    return q, max(1.0 - float(q.sum()), 0.0)
