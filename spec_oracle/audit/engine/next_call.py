"""The exact distribution of one call of an engine, given the calls before it.

Which random decisions led through the calls before is fixed by a script; those of the next call are run in
every way. What the call emits, followed by tokens of the target up to the longest emission, must be
distributed as the target's completions are after that text. The emitted length is judged with it: a call that
ends too early or too late for its tokens moves that distribution.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.engine.subject import Case
from spec_oracle.contracts import ContractError, SubjectRaisedError, raising
from spec_oracle.contracts.engine import as_list, copy_of
from spec_oracle.exact.completions import Ids, completion_law, is_ended, summed
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import (
    Branch,
    Decision,
    TooManyBranchesError,
    UnrepeatableError,
    enumerate_calls,
    outcomes,
    sample_call,
)

# Calls of one accepted length after which a history goes on: the likeliest ones.
ENGINE_LIKELY: Final = 8

_NO_LIMIT: Final = 10**9

NO_DRAFTS = -1
"""In place of an accepted length: the call drafted nothing."""

Pattern: TypeAlias = tuple[int, ...]
"""The accepted lengths of some calls, `NO_DRAFTS` where there were no drafts."""


def describe(pattern: Pattern) -> str:
    """Return accepted lengths for messages."""
    return "-".join("none" if length == NO_DRAFTS else str(length) for length in pattern) or "no call"


Seen: TypeAlias = list[tuple[Any, int]]
"""Calls in order: the tokens of each, and its accepted length."""


class CallResult(NamedTuple):
    """What a call emitted, and its accepted length: one token less, or `NO_DRAFTS`."""

    emitted: Ids
    accepted: int


@dataclass(frozen=True, eq=False)
class History:
    """Calls, the random decisions behind them, their probability, and the history before the last call."""

    calls: tuple[CallResult, ...] = ()
    script: tuple[Decision, ...] = ()
    chance: float = 1.0
    before: "History | None" = None

    @property
    def text(self) -> Ids:
        """The tokens that were emitted."""
        return tuple(token for call in self.calls for token in call.emitted)

    @property
    def pattern(self) -> Pattern:
        """The accepted lengths."""
        return tuple(call.accepted for call in self.calls)


class CallOutcome(NamedTuple):
    """One outcome of a call, its probability, and all random decisions from the first call on."""

    mass: float
    call: CallResult
    script: tuple[Decision, ...]


@dataclass
class TracedCalls:
    """Runs one case to histories of at most ``tokens`` tokens, and traces the call after each.

    All before ``ends``, in seconds of `time.process_time`. Requests have the ``seed``, if there is one.
    ``fresh``: every run is that of a copy that has generated nothing.
    """

    case: Case
    tokens: int
    ends: float = math.inf
    seed: int | None = None
    fresh: bool = False
    runs: int = field(default=0, init=False)
    _after: dict[History, list[CallOutcome]] = field(default_factory=dict, init=False)
    _alike: dict[tuple[History, int], list[tuple[float, History]]] = field(default_factory=dict, init=False)

    def seen(self, engine: object, most_calls: int, most_tokens: int, seed: int | None) -> Seen:
        """Return the first calls of one run; the tokens of the last one as they came.

        The run ends after so many calls, or as soon as there are that many tokens.
        """
        found: Seen = []
        drafted = 0

        def ended(emitted: list[Any]) -> bool:
            nonlocal drafted
            counted = getattr(engine, "drafted", None)
            is_bare = not emitted or (counted is not None and int(counted) == drafted)
            drafted = int(counted or 0)
            is_last = len(found) + 1 == most_calls
            tokens = emitted if is_last else tuple(int(token) for token in emitted)
            found.append((tokens, NO_DRAFTS if is_bare else len(emitted) - 1))
            return is_last or sum(len(some) for some, _ in found) >= most_tokens

        self.case.code.each_call(engine, self.case.prompt, self.tokens, ended, seed)
        return found

    @property
    def engine(self) -> Any:
        """The engine that is run: itself, or a copy that has generated nothing."""
        return copy_of(self.case.code.unused) if self.fresh else self.case.code.engine

    def generates_alike(self, history: History, rng: Callable[[], np.random.Generator]) -> bool:
        """Whether `generate` makes the decisions of `steps` in one run, and returns the same tokens.

        The run begins with the history; ``rng()`` makes later decisions. True where it cannot be traced.
        """

        def by_steps() -> list[Any]:
            seen = self.seen(self.engine, _NO_LIMIT, _NO_LIMIT, self.seed)
            return [token for emitted, _ in seen for token in emitted]

        def by_generate() -> list[Any]:
            seeds = {} if self.seed is None else {"seed": self.seed}
            return as_list(self.engine.generate([*self.case.prompt], self.tokens, **seeds))

        left = self.ends - time.process_time()
        watched = self.case.code.own_seeds.watched()
        with suppress(NotTracedError, SubjectRaisedError), raising(), watched:
            one = sample_call(by_steps, rng(), left, history.script)
            try:
                other = sample_call(by_generate, rng(), left, history.script)
            except UnrepeatableError:
                return False
            return one.result == other.result and math.isclose(one.log_chance, other.log_chance, abs_tol=1e-6)
        return True

    def after(self, history: History) -> list[CallOutcome]:
        """Return the outcomes of the call after a history."""
        if history not in self._after:
            self._after[history] = [
                CallOutcome(mass, self._last(calls), script)
                for branch in self._traced(len(history.calls) + 1, history.script)
                for mass, calls, script in outcomes(branch)
            ]
        return self._after[history]

    def _traced(self, calls: int, given: tuple[Decision, ...]) -> list[Branch[Seen]]:
        code = self.case.code

        def run() -> Seen:
            found = self.seen(self.engine, calls, self.tokens, self.seed)
            if len(found) < calls:
                raise ContractError("steps ended before a stop token and before max_new_tokens tokens")
            return found

        left = self.ends - time.process_time()
        if left <= 0:
            raise TooManyBranchesError("no time is left for further calls; raise --budget")
        try:
            with raising(), code.own_seeds.watched():
                branches = enumerate_calls(
                    run, max_branches=effort.ENGINE_RUNS, max_seconds=left, given=given, leave_open=True
                )
        except (UnrepeatableError, SubjectRaisedError):
            if self.fresh or given or code.unused is None:
                raise
            code.abandon(code.engine)  # a run that ends early may leave it locked
            self.fresh = True
            return self._traced(calls, given)
        self.runs += len(branches)
        return branches

    def _last(self, calls: Seen) -> CallResult:
        tokens, accepted = calls[-1]
        return CallResult(self.case.code.checked(tokens, self.tokens, "steps"), accepted)

    def longer(self, history: History) -> list[History]:
        """Return a history for each call that may follow this one without an end of the completion.

        Of calls that accept as much, the likeliest. The probability is that of the call, whatever it hides.
        """
        masses, likeliest = defaultdict[CallResult, float](float), dict[CallResult, CallOutcome]()
        for outcome in sorted(self.after(history), key=lambda one: -one.mass):
            masses[outcome.call] += outcome.mass
            likeliest.setdefault(outcome.call, outcome)
        going_on = [call for call in likeliest if not self._is_over(history.text + call.emitted)]
        found: dict[int, list[History]] = {}
        for call in sorted(going_on, key=lambda call: -masses[call]):
            some = found.setdefault(call.accepted, [])
            if len(some) < ENGINE_LIKELY:
                chance = history.chance * masses[call]
                some.append(History((*history.calls, call), likeliest[call].script, chance, history))
        return [one for some in found.values() for one in some]

    def _is_over(self, text: Ids) -> bool:
        endings = self.case.code.endings
        ended = any(is_ended(text[:length], endings) for length in range(1, len(text) + 1))
        return ended or len(text) >= self.tokens

    def width(self, history: History) -> int:
        """Return the longest emission of the next call, tokens."""
        return max(len(outcome.call.emitted) for outcome in self.after(history))

    def alike(self, history: History, averaged: int) -> list[tuple[float, History]]:
        """Return weights, and all histories of the same calls that differ in what the last ``averaged`` hide.

        What a call hides is all that was decided in it and does not show in what it emitted: rejected drafts,
        drafts that were made ahead.
        """
        if not averaged or history.before is None:
            return [(1.0, history)]
        if (history, averaged) not in self._alike:
            call = history.calls[-1]
            self._alike[history, averaged] = [
                (
                    weight * one.mass,
                    history
                    if one.script is history.script
                    else History(history.calls, one.script, 0.0, before),
                )
                for weight, before in self.alike(history.before, averaged - 1)
                for one in self.after(before)
                if one.call == call
            ]
        return self._alike[history, averaged]

    def laws(self, history: History, averaged: int) -> tuple[Mapping[Ids, float], Mapping[Ids, float]]:
        """Return the distribution of the text after the next call, extended by the target, and the target's.

        Given all that was decided before; or on average over what the last ``averaged`` calls hide.
        """
        alike, text = self.alike(history, averaged), history.text
        tokens = len(text) + max(self.width(one) for _, one in alike)
        total = math.fsum(weight for weight, _ in alike)
        law = summed(
            (extended, weight * outcome.mass * chance / total)
            for weight, one in alike
            for outcome in self.after(one)
            for extended, chance in self._of_target(text + outcome.call.emitted, tokens).items()
        )
        return law, self._of_target(text, tokens)

    def _of_target(self, text: Ids, tokens: int) -> dict[Ids, float]:
        code, prompt = self.case.code, self.case.prompt
        return completion_law(lambda completion: code.row(prompt + completion), code.endings, tokens, text)
