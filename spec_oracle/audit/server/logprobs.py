"""The check `logprobs`: the log-probabilities reported of a completion are those of one-token requests.

A request for one token has nothing to speculate on. So the log-probability that is reported of each token of
a completion must be the one that a one-token request reports after the same tokens: up to rounding, and up to
what equal requests differ by anyway. Nothing is estimated, so one completion decides.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, not_asked, passed
from spec_oracle.audit.server.distributions import READINGS, SEEN_MASS, Distributions, Logs
from spec_oracle.audit.server.ratios import Ratios
from spec_oracle.audit.server.subject import NEEDS_PROBABILITIES, ServerSubject
from spec_oracle.contracts.server import Ask, Completion, OutOfTimeError, Prefix, Reported, Sampling

NEGLIGIBLE = 1e-3
"""Differences that no use of log-probabilities notices, nats."""

NOISE_FACTOR = 5.0
"""Equal requests may differ by more than the few differences by which that was measured."""

DIGITS, BFLOAT16 = 4, 2.0**-7
"""Digits after the point that may be all that is reported; the relative error of bfloat16, twice."""


def logprobs(subject: ServerSubject, context: Context) -> CheckResult:
    """Compare what is reported of completions after each prompt, token by token, with one-token requests."""
    del context
    server, reported = subject.server, subject.distributions
    if not server.listed:
        return not_asked(NEEDS_PROBABILITIES)
    length, tokens, drafted, completions = effort.SERVER_LONGER * subject.plan.tokens, 0, 0, 0
    ratios = Ratios()
    try:
        for number in list(range(len(server.prompts))) * effort.SERVER_LOGPROBS:
            (answer,) = server.complete([Ask(server.prompts[number], length, listed=server.listed)])
            compared = Compared.of(answer, number, reported)
            for entry, row, token in zip(answer.reported, compared.expected, answer.tokens, strict=False):
                ratios.add(row.get(token), entry.log)
            if fault := compared.fault(server.sampling):
                drafts = f"; {answer.accepted} accepted drafts" if answer.accepted is not None else ""
                notes = tuple(filter(None, [ratios.in_words()]))
                return failed(f"{fault}{drafts}", draws=completions + 1, how=How.SAMPLED, notes=notes)
            tokens, completions = tokens + len(answer.tokens), completions + 1
            drafted += answer.drafted or 0
            server.tell("logprobs", completions, len(server.prompts) * effort.SERVER_LOGPROBS)
    except OutOfTimeError:
        if not completions:
            raise
    detail = (
        f"{tokens:,} log-probabilities of {completions:,} completions equal those of one-token requests, "
        f"up to {compared.tolerance:.2g} nats"
    )
    if not drafted and subject.completions.drafts.drafted:
        detail += "; the server drafts nothing where log-probabilities are asked for"
    known: dict[str, Any] = {"draws": completions, "how": How.SAMPLED, "notes": (ratios.in_words(),)}
    if compared.tolerance > effort.SERVER_LOGPROBS_COARSEST:
        return inconclusive(f"{detail}; {reported.uncertainty}", **known)
    return passed(detail, **known)


@dataclass(frozen=True)
class Compared:
    """A completion, what one-token requests list at each of its tokens, how many, and a tolerance in nats.

    Or what another ``source`` lists.
    """

    completion: Completion
    expected: Sequence[Logs]
    listed: int
    tolerance: float
    source: str = "one-token requests"

    @classmethod
    def of(cls, completion: Completion, number: int, distributions: Distributions) -> "Compared":
        """Ask for the distributions; for those that differ a second time, since noise may do that."""
        prefixes: list[Prefix] = [(number, completion.tokens[:end]) for end in range(len(completion.tokens))]
        allowed = tolerance(distributions)

        def compared() -> Compared:
            distributions.fetch(prefixes)
            logs = [distributions.logs[prefix] or {} for prefix in prefixes]
            return cls(completion, logs, distributions.server.listed, allowed)

        first = compared()
        for place in first.differing():
            distributions.logs.pop(prefixes[place], None)
        return compared()

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
                "the last are of tokens behind its end"
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
        """Return the numbers of tokens whose reported log-probabilities are others, from 0 on."""
        both = min(len(self.completion.reported), len(self.expected))
        return [place for place in range(both) if self._difference(place) > self.tolerance]

    def _difference(self, place: int) -> float:
        entry, token = self.completion.reported[place], self.completion.tokens[place]
        if entry.log is None:
            return math.inf
        own = {token: entry.log} if not entry.logs else {**entry.logs, token: entry.log}
        return difference(own, self.expected[place])

    def _kind(self, wrong: Sequence[int], sampling: Sampling) -> str:
        """Say of what they are instead, as far as that is known."""
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
                len(wrong) < len(self.completion.tokens) - 1
                and all_are(lambda entry, place: self._is_residual(entry, self.expected[place]))
            ),
            f"they are rounded{self._rounded(wrong)}": bool(self._rounded(wrong)),
            "they are of no distribution that is known here": True,
        }
        return next(kind for kind, is_so in kinds.items() if is_so)

    def _rounded(self, wrong: Sequence[int]) -> str:
        """Say to what those that differ are rounded, "" if they are not, or differ by more than that."""
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

    def _is_residual(self, entry: Reported, row: Logs) -> bool:
        """Whether some tokens are more probable and some less; so, too, where only one is listed."""
        more = [entry.logs[token] > log for token, log in row.items() if token in entry.logs]
        return not entry.logs or (any(more) and not (len(entry.logs) >= len(row) and all(more)))

    def _widened(self, sampling: Sampling) -> float:
        return 2 * self.tolerance * max(1.0, sampling.temperature, 1 / sampling.temperature)


def tolerance(distributions: Distributions) -> float:
    """Return by how much equal log-probabilities may differ, nats."""
    return NOISE_FACTOR * distributions.noise + 2 * distributions.rounding + NEGLIGIBLE


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
