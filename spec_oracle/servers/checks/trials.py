"""Trials of the check `shapes` of servers: completions under one combination of sampling fields.

`Trial` judges each token by what one-token requests report under the same fields, `Beside` whole completions
beside those of a reference server, where one-token requests show nothing of a field.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from spec_oracle.audit import effort as common
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import difference
from spec_oracle.audit.long_tokens import is_decided, tokens_needed
from spec_oracle.audit.results import Status
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.servers.checks import effort
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.fields import (
    JSON,
    NO_EFFECT,
    SCHEMA_FIELDS,
    Combination,
    Fields,
    left_of_schema,
    spellings,
)
from spec_oracle.servers.checks.joint import token_by_token
from spec_oracle.servers.checks.long_texts import JudgedCompletions
from spec_oracle.servers.checks.reference import completions_needed, prefix_counts
from spec_oracle.servers.checks.subject import Completions, ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask, OutOfTimeError, RefusedError
from spec_oracle.statistics import Homogeneity, homogeneity

# TV a token that the completions under a combination of sampling fields are planned for, and must detect.
SERVER_SHAPES_TV: Final = 0.4

RARE = 1e-9
"""Least probability by which equal completions are weighed."""


@dataclass
class Left(Distributions):
    """Distributions under a JSON schema, each asked for under a grammar of what is left of it.

    A one-token request under the schema itself would begin its text anew.
    """

    pieces: dict[Token, str] = field(default_factory=dict, init=False)

    def ask(self, prefix: Prefix, listed: int) -> Ask:
        """Return the request for the token after a prefix."""
        return replace(super().ask(prefix, listed), fields=self._left(prefix) or {})

    def fetch(self, prefixes: Iterable[Prefix], *, together: bool = False) -> None:
        """Ask for those that are not known yet; where the text may be over, none is known."""
        prefixes = list(prefixes)
        self.logs.update((one, None) for one in prefixes if one not in self.logs and self._left(one) is None)
        super().fetch(prefixes, together=together)

    def _left(self, prefix: Prefix) -> Fields | None:
        for token in prefix[1]:
            if token not in self.pieces:
                self.pieces[token] = self.server.text([token]) or ""
        return left_of_schema("".join(self.pieces[token] for token in prefix[1]))


@dataclass
class Trial:
    """Completions under one combination: ``wrong`` says what is, ``why`` it was not tried."""

    subject: ServerSubject
    context: Context
    combination: Combination
    number: int
    wrong: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        self.server = self.combination.of(self.subject.server)
        self.laws = Distributions(self.server)
        if JSON in self.combination.words.values():
            others = {k: v for k, v in self.combination.fields.items() if k not in SCHEMA_FIELDS}
            self.laws = Left(replace(self.combination, fields=others).of(self.subject.server))
        self.laws.reading = self.subject.distributions.reading
        self.laws.along = (self.laws, None)  # scores of prompts know no penalties
        self.judged = JudgedCompletions(
            self.laws, None, self.context.stream("server/shapes/uniforms", self.number)
        )
        self.completions = Completions(
            self.server,
            self.combination.tokens,
            (self.context.seed, f"server/shapes/{self.number}"),
            self.combination.is_seeded,
            {"n": self.combination.several} if self.combination.several > 1 else {},
        )

    @property
    def draws(self) -> int:
        """Tokens that were judged."""
        return self.judged.evidence.tokens

    @property
    def seen(self) -> str:
        """The same in words."""
        return f"{self.draws:,} tokens"

    @property
    def least(self) -> float | None:
        """A lower bound of the total variation a token."""
        return self.judged.evidence.least_tv(common.SERVER_BOUND_RATE)

    def detects(self, rate: float) -> float:
        """Return the total variation a token that is detected."""
        return self.judged.evidence.all_by_p.detects(rate)

    def run(self, rate: float, seconds: float) -> None:
        """Judge completions for so many seconds."""
        needed = tokens_needed(SERVER_SHAPES_TV, rate, 0.1)
        end, evidence = time.monotonic() + seconds, self.judged.evidence
        width = self.server.client.limits.concurrency
        try:
            self.laws.noise = max(self.subject.distributions.noise, self._noise())
            if self.laws.noise > effort.SERVER_LOGPROBS_COARSEST:
                self.why = f"equal requests differ by {self.laws.noise:.2g} nats"
                return
            while evidence.tokens < needed and not is_decided(self.judged, rate):
                missing = (needed - evidence.tokens) // (self.combination.tokens * self.combination.several)
                at_once = min(missing, 4 * width * (1 + len(self.completions.found) // width))
                self.judged.add(self.completions.sample(max(at_once, width)))
                if time.monotonic() > end or (
                    self.judged.completions >= effort.SERVER_PILOT and not evidence.tokens
                ):
                    break
        except RefusedError:
            self.why = "refused"
            return
        except OutOfTimeError:
            pass
        if not (evidence.tokens or self.judged.ruled_out):
            self.why = "no next-token distribution is known"
        elif is_decided(self.judged, rate):
            self._decide()
        elif not (wrong := self._all_alike(rate)) and self._hidden() > effort.SERVER_SHAPES_COARSEST:
            self.why = f"equal requests differ by {self._hidden():.2g} in total variation a token"
        else:
            self.wrong = wrong

    def _hidden(self) -> float:
        """Return the total variation a token that differences between equal requests hide."""
        test = self.judged.evidence.all_by_p
        return 2 * test.doubt / max(test.tokens, 1)

    def _decide(self) -> None:
        """Say what is wrong, unless completions made by one-token requests contradict the rows too."""
        again = JudgedCompletions(
            self.laws, None, self.context.stream("server/shapes/one-token", self.number)
        )
        made: list[Prefix] = [(prompt, ()) for prompt, _ in self.completions.found]
        with suppress(OutOfTimeError):
            again.add(token_by_token(self.laws, made, self.completions.length))
        if is_decided(again, effort.SERVER_BLAME_RATE):
            self.why = "one-token samples contradict the reported probabilities, too"
            return
        contradict = f"{self.judged.evidence.tokens:,} tokens contradict their next-token distributions"
        worst = self.judged.evidence.worst.name
        self.wrong = self.judged.ruled_out or f"{contradict}, most in tokens {worst}"

    def _noise(self) -> float:
        """Return by how much the distributions after the prompts differ when asked for again, nats."""
        again = type(self.laws)(self.laws.server)
        roots: list[Prefix] = [(number, ()) for number in range(len(self.server.prompts))]
        self.laws.fetch(roots)
        again.fetch(roots)
        return max(difference(self.laws.logs[root] or {}, again.logs[root] or {}) for root in roots)

    def _all_alike(self, rate: float) -> str:
        """Say that the completions of each request for several are the same, "" if that may be chance."""
        several, found = self.combination.several, self.completions.found
        groups = [found[i : i + several] for i in range(0, len(found), several)]
        if several == 1 or any(len(set(group)) > 1 for group in groups):
            return ""
        log_chance = 0.0
        for number, tokens in (group[0] for group in groups):
            for place, token in enumerate(tokens):
                law = self.laws.after((number, tokens[:place]))
                if law is not None and law.index(token) >= 0:
                    log_chance += math.log(max(law.probabilities[law.index(token)], RARE))
        if log_chance > math.log(rate):
            return ""
        return f"the {several} completions of a request are the same in all {len(groups)} requests"


@dataclass
class Beside:
    """Completions under one field that one-token requests show nothing of, beside those of the reference.

    ``ways`` are its spellings; other fields as of `Trial`.
    """

    subject: ServerSubject
    context: Context
    name: str
    ways: Sequence[Fields]
    number: int
    wrong: str = ""
    why: str = ""
    fit: Homogeneity | None = None
    least: None = None

    @property
    def combination(self) -> Combination:
        """The field alone."""
        return Combination({self.name: "on"}, {}, self.subject.plan.tokens)

    @property
    def draws(self) -> int:
        """Completions that were judged."""
        return self.fit.draws[0] if self.fit else 0

    @property
    def seen(self) -> str:
        """The same in words."""
        return f"{self.draws:,} completions beside as many of the reference"

    def detects(self, rate: float) -> float:
        """Return the total variation of completions that is detected."""
        del rate
        return self.fit.smallest_detectable_tv if self.fit else math.inf

    def run(self, rate: float, seconds: float) -> None:
        """Compare completions for so many seconds."""
        server, reference = self.subject.server, self.subject.reference
        assert reference is not None
        end, count = time.monotonic() + seconds, completions_needed(SERVER_SHAPES_TV, rate)
        both = server, replace(reference, prompts=server.prompts)
        fields = next((way for way in self.ways if all(_takes(one, way) for one in both)), None)
        if fields is None:
            self.why = "refused"
            return
        sides = [
            Completions(
                one,
                self.subject.plan.tokens,
                (self.context.seed, f"server/shapes/beside {self.number}, {n}"),
                fields=fields,
            )
            for n, one in enumerate(both)
        ]
        try:
            while len(sides[1].found) < count and (not sides[1].found or time.monotonic() < end):
                for side in sides:
                    side.sample(min(count - len(sides[1].found), 16 * server.client.limits.concurrency))
        except OutOfTimeError:
            if not sides[1].found:
                raise
        counts, _ = prefix_counts(sides[0].found, sides[1].found)
        self.fit = homogeneity(*counts, alpha=rate)
        if not self.fit.passed:
            self.wrong = f"{self.seen} are distributed differently"


def beside_reference(
    subject: ServerSubject, context: Context, unknown: Mapping[str, str]
) -> Iterator[Beside]:
    """Yield the trials of fields of which one-token requests show nothing, if there is a reference.

    None where the reference serves another model, or shows other tokens.
    """
    model, reference = context.results.get("model"), subject.reference
    if reference is None or reference.by_letters != subject.server.by_letters:
        return
    if model is not None and model.status is Status.FAILED:
        return
    spelt = spellings(0)
    for number, name in enumerate(one for one, why in unknown.items() if why.startswith(NO_EFFECT)):
        yield Beside(subject, context, name, spelt[name], number)


def _takes(server: Server, fields: Fields) -> bool:
    try:
        server.complete([Ask(server.prompts[0], 1, fields=fields)])
    except RefusedError:
        return False
    return True
