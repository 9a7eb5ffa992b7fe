"""The exact distribution of one call of an engine, given the calls before it.

Which random decisions led through the calls before is fixed by a script; those of the next call are run in
every way. What the call emits, followed by tokens of the target up to the longest emission, must be
distributed as the target's completions are after that text. The emitted length is judged with it: a call that
ends too early or too late for its tokens moves that distribution.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from spec_oracle.audit import effort
from spec_oracle.audit.engine.subject import Case
from spec_oracle.contracts import ContractError, raising
from spec_oracle.contracts.engine import copy_of
from spec_oracle.exact.completions import Ids, completion_law, distance, is_ended, summed
from spec_oracle.exact.interception import (
    Branch,
    Decision,
    TooManyBranchesError,
    UnrepeatableError,
    enumerate_calls,
    outcomes,
)

NO_DRAFTS = -1
"""In place of an accepted length: the call drafted nothing."""

Pattern: TypeAlias = tuple[int, ...]
"""The accepted lengths of some calls, `NO_DRAFTS` where there were no drafts."""

Seen: TypeAlias = list[tuple[Any, int]]
"""Calls as they come: tokens, and the accepted length."""


class Call(NamedTuple):
    """What a call emitted, and how much it accepted: one less, `NO_DRAFTS` without drafts."""

    emitted: Ids
    accepted: int


@dataclass(frozen=True, eq=False)
class History:
    """Calls, the decisions that led through them, their probability, and the history before the last one."""

    calls: tuple[Call, ...] = ()
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


class Outcome(NamedTuple):
    """One outcome of a call: its probability, and the branch that led there."""

    mass: float
    call: Call
    branch: Branch[Seen]


@dataclass
class Calls:
    """Runs one case to histories of at most ``tokens`` tokens, and traces the call after each.

    All within ``seconds`` of processor time. ``fresh``: every run is that of a copy that has generated
    nothing.
    """

    case: Case
    tokens: int
    seconds: float
    fresh: bool = False
    runs: int = field(default=0, init=False)
    ends: float = field(init=False)
    _after: dict[History, list[Outcome]] = field(default_factory=dict, init=False)
    _extended: dict[tuple[History, Call], History] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.ends = time.process_time() + self.seconds

    def seen(self, engine: Any, most_calls: int, most_tokens: int) -> Seen:
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

        self.case.code.each_call(engine, self.case.prompt, self.tokens, ended)
        return found

    def after(self, history: History) -> list[Outcome]:
        """Return the outcomes of the call after a history."""
        if history not in self._after:
            branches = self._traced(len(history.calls) + 1, history.script, leave_open=True)
            self._after[history] = [
                Outcome(mass, self._last(calls), branch)
                for branch in branches
                for mass, calls in outcomes(branch)
            ]
        return self._after[history]

    def _traced(self, calls: int, given: tuple[Decision, ...], *, leave_open: bool) -> list[Branch[Seen]]:
        code = self.case.code

        def run() -> Seen:
            found = self.seen(copy_of(code.unused) if self.fresh else code.engine, calls, self.tokens)
            if len(found) < calls:
                raise ContractError("steps ended before a stop token and before max_new_tokens tokens")
            return found

        left = self.ends - time.process_time()
        if left <= 0:
            raise TooManyBranchesError("no time is left for further calls")
        try:
            with raising():
                branches = enumerate_calls(
                    run, max_branches=effort.ENGINE_RUNS, max_seconds=left, given=given, leave_open=leave_open
                )
        except UnrepeatableError:
            if self.fresh or given or code.unused is None:
                raise
            self.fresh = True
            return self._traced(calls, given, leave_open=leave_open)
        self.runs += len(branches)
        return branches

    def _last(self, calls: Seen) -> Call:
        tokens, accepted = calls[-1]
        return Call(self.case.code.checked(tokens, self.tokens, "steps"), accepted)

    def extended(self, history: History, outcome: Outcome) -> History:
        """Return a history with one call more; a token that the branch left open is decided.

        Its probability is that of the call, given the history, whatever the call hides.
        """
        branches = [outcome.branch]
        if outcome.branch.stands:
            branches = self._traced(len(history.calls) + 1, outcome.branch.script, leave_open=False)
        script = next(one.script for one in branches if self._last(one.result) == outcome.call)
        mass = math.fsum(one.mass for one in self.after(history) if one.call == outcome.call)
        return History((*history.calls, outcome.call), script, history.chance * mass, history)

    def first(self, before: History, accepted: int, count: int) -> list[History]:
        """Return that many histories with one call more, which accepts so much.

        They differ in their last tokens where they can; likely ones come first, and those after which the
        completion is over are left out.
        """
        likeliest: dict[Call, Outcome] = {}
        for outcome in sorted(self.after(before), key=lambda one: -one.mass):
            if outcome.call.accepted == accepted and not self._is_over(before.text + outcome.call.emitted):
                likeliest.setdefault(outcome.call, outcome)
        lasts = Counter[int]()
        turns: dict[Call, int] = {}
        for call in likeliest:
            last = call.emitted[-1] if call.emitted else -1
            turns[call] = lasts[last]
            lasts[last] += 1
        calls = sorted(likeliest, key=lambda call: turns[call])[:count]
        for call in calls:
            if (before, call) not in self._extended:
                self._extended[before, call] = self.extended(before, likeliest[call])
        return [self._extended[before, call] for call in calls]

    def _is_over(self, text: Ids) -> bool:
        endings = self.case.code.endings
        ended = any(is_ended(text[:length], endings) for length in range(1, len(text) + 1))
        return ended or len(text) >= self.tokens

    def law(self, history: History, width: int) -> dict[Ids, float]:
        """Return the law of the text after the next call, extended by the target by ``width`` in all."""
        text = history.text
        return summed(
            (extended, outcome.mass * chance)
            for outcome in self.after(history)
            for extended, chance in self._of_target(text + outcome.call.emitted, len(text) + width).items()
        )

    def _of_target(self, text: Ids, tokens: int) -> dict[Ids, float]:
        code, prompt = self.case.code, self.case.prompt
        return completion_law(lambda completion: code.row(prompt + completion), code.endings, tokens, text)

    def width(self, history: History) -> int:
        """Return the longest emission of the next call, tokens."""
        return max(len(outcome.call.emitted) for outcome in self.after(history))

    def laws(self, history: History, *, averaged: bool) -> tuple[Mapping[Ids, float], Mapping[Ids, float]]:
        """Return the law of the text after the next call, and the target's.

        Given all that was decided before; or ``averaged`` over what the last call hides, that is all that was
        decided in it and does not show in what it emitted: rejected drafts, drafts that were made ahead.
        """
        alike = [(1.0, history)]
        if averaged and history.before is not None:
            alike = [
                (outcome.mass, self.extended(history.before, outcome))
                for outcome in self.after(history.before)
                if outcome.call == history.calls[-1]
            ]
        width, total = max(self.width(one) for _, one in alike), math.fsum(mass for mass, _ in alike)
        law = summed(
            (text, share * mass / total)
            for share, one in alike
            for text, mass in self.law(one, width).items()
        )
        return law, self._of_target(history.text, len(history.text) + width)

    def off(self, history: History, *, averaged: bool) -> float:
        """Return the distance of the next call from the target."""
        return distance(*self.laws(history, averaged=averaged))
