"""The call after every pattern of accepted lengths of the last three calls (theory.md, section 7).

If every call, whatever the calls before it did, emits as the target would, then so is every completion
distributed. So the engine is run to a history of each pattern, and the next call alone is enumerated: that
costs the branches of one call, and shows what breaks after two full acceptances or after a rejection behind
one.

A right engine may fail it: drafts that were made ahead are known given all decisions, and rules with
carry-over are right on average over accepted lengths only. So a call that is off is judged again on average
over what the last call hides; calls after one that is off are not judged; and nothing is called wrong that
uninstrumented completions do not confirm, which have all that is hidden on average. What they cannot decide
within the budget is undecided: the engine is not lossless then.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.next_call import History, Pattern, TracedCalls, told
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.suspects import Suspect
from spec_oracle.audit.results import Cause, CheckResult, How, failed, inconclusive, passed
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.errors import NotTracedError

# Most tokens of the histories from which `calls` traces one call, and more where drafts are longer.
ENGINE_CALLS_TOKENS: Final = 24
# Histories of a pattern of no, one, two and three calls from which the next one is traced.
ENGINE_HISTORIES: Final = (1, 3, 2, 2)
# Histories of the same calls over which the next one is averaged, before samples are taken.
ENGINE_ALIKE: Final = 64

CALLS = 3
"""Accepted lengths that make a pattern."""

_SHOWN = 6


def after_patterns(
    cases: Sequence[Case], rounding: Rounding, context: Context, seconds: float
) -> CheckResult:
    """Judge the next call after every pattern of accepted lengths, for the first prompt of each engine.

    All within ``seconds`` of processor time, but for samples that confirm a defect. Engines of which least is
    left come first, so that as many as possible are done; second histories of a pattern come last, and calls
    that few samples left open after them.
    """
    firsts = {case.name: case for case in reversed(cases)}.values()
    every = [
        Patterns(case, rounding, context, seconds, 0.5 ** (number + 1))
        for number, case in enumerate([*firsts][::-1])
    ]
    for number in range(max(ENGINE_HISTORIES)):
        turns = {one.case.name: one.turns(number) for one in every if not one.why}
        while turns:
            one = min((some for some in every if some.case.name in turns), key=Patterns.seconds_left)
            try:
                wrong = one.timed(turns[one.case.name])
            except (StopIteration, NotTracedError) as error:
                one.why = "" if isinstance(error, StopIteration) else str(error)
                del turns[one.case.name]
                continue
            if wrong is not None:
                return wrong
    wrong = _settled(every, effort.CLAIM_SHARE * context.budget)
    if wrong is not None:
        return wrong
    draws, scope = sum(one.draws for one in every), (*_scope(every),)
    still_open = [suspect for one in every for suspect in one.still_open]
    if not still_open:
        return passed("", how=How.PROVEN, draws=draws, scope=scope)
    first = max(still_open, key=lambda suspect: suspect.draws)
    more = f" ({len(still_open)} such calls are undecided)" * (len(still_open) > 1)
    how = How.SAMPLED if first.draws else How.PROVEN
    detail = f"{first}; {first.why}{more}"
    return inconclusive(detail, how=how, draws=draws, scope=scope, cause=Cause.UNDECIDED)


def _settled(every: Sequence["Patterns"], seconds: float) -> CheckResult | None:
    """Decide calls that are open, those that need the fewest completions first; return a defect."""
    ends = time.perf_counter() + seconds
    waiting = [(one, suspect) for one in every for suspect in one.still_open if suspect.needed]
    for one, suspect in sorted(waiting, key=lambda both: both[1].needed):
        left = ends - time.perf_counter()
        if left <= 0:
            return None
        if (wrong := one.decided(suspect, suspect.is_settled, left)) is not None:
            return wrong
    return None


def _scope(every: Sequence["Patterns"]) -> Iterator[str]:
    """Yield a line for each engine, and one for all of which nothing is known for the same reason."""
    yield from (one.covered() for one in every if one.seen)
    silent = [one for one in every if not one.seen]
    for why in dict.fromkeys(one.why for one in silent):
        labels = [one.case.label for one in silent if one.why == why]
        who = labels[0] if len(labels) == 1 else f"{len(labels)} of {len(every)} engines"
        yield f"{who}: no call after others was traced ({why})"


@dataclass
class Patterns:
    """What is known of the call after each pattern.

    ``reached`` are histories of it, ``next_lengths`` the accepted lengths of the calls after these;
    ``judged`` those after which the call is the target's, ``on_average`` those after which it depends on more
    than the text, ``still_open`` are calls that are off, and neither confirmed nor refuted yet. Calls are
    traced for ``seconds``; ``rate_part`` of the rate is this engine's. ``why`` says why it was given up;
    ``took`` is the time that it took.
    """

    case: Case
    rounding: Rounding
    context: Context
    seconds: float
    rate_part: float
    calls: TracedCalls = field(init=False)
    reached: dict[Pattern, list[History]] = field(default_factory=dict, init=False)
    on_average: set[Pattern] = field(default_factory=set, init=False)
    judged: set[Pattern] = field(default_factory=set, init=False)
    still_open: list[Suspect] = field(default_factory=list, init=False)
    next_lengths: dict[Pattern, set[int]] = field(default_factory=dict, init=False)
    draws: int = field(default=0, init=False)
    why: str = field(default="", init=False)
    took: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        length = int(getattr(self.case.code.engine, "draft_length", 0))
        tokens = max(ENGINE_CALLS_TOKENS, (CALLS + 1) * (length + 1) + 1)
        self.calls = TracedCalls(self.case, tokens, self.seconds)

    def timed(self, turns: Iterator[CheckResult | None]) -> CheckResult | None:
        """Return what the next turn finds wrong, if anything."""
        started = time.process_time()
        try:
            return next(turns)
        finally:
            self.took += time.process_time() - started

    def seconds_left(self) -> float:
        """Return about how long it takes to reach all patterns, 0 before the first call was traced."""
        reached = sum(bool(some) for some in self.reached.values())
        return self.took / reached * (len(self._wanted()) - reached) if reached else 0.0

    def turns(self, number: int) -> Iterator[CheckResult | None]:
        """Judge the call after history ``number`` of every pattern, shortest first, one a turn."""
        for _ in range(CALLS):  # what is reached by way of longer patterns comes in a later turn
            tried = set[Pattern]()
            while (pattern := next((one for one in self._wanted() if one not in tried), None)) is not None:
                tried.add(pattern)
                if number < ENGINE_HISTORIES[len(pattern)]:
                    yield self._wrong_after(pattern, number)

    @property
    def seen(self) -> set[int]:
        """All accepted lengths of any call."""
        return {length for lengths in self.next_lengths.values() for length in lengths}

    def _never_occurs(self, pattern: Pattern) -> bool:
        """Whether no call after some beginning of the pattern accepted what comes next in it."""
        return any(pattern[n] not in self.next_lengths.get(pattern[:n], self.seen) for n in range(1, CALLS))

    def _wanted(self) -> list[Pattern]:
        lengths = sorted(self.seen)
        return [pattern for size in range(CALLS + 1) for pattern in product(lengths, repeat=size)]

    def covered(self) -> str:
        """Return a line on which patterns were covered."""
        wanted = list(product(sorted(self.seen), repeat=CALLS))
        covered, others = self.judged.intersection(wanted), [one for one in wanted if one not in self.judged]
        missing = [told(pattern) for pattern in others if not self._never_occurs(pattern)]
        line = (
            f"{self.case.label}: the next call alone after {len(covered)} of {len(covered) + len(missing)} "
            f"patterns of three accepted lengths, traced in {self.calls.runs:,} runs"
        )
        if never := len(others) - len(missing):
            line += f"; {never:,} more did not occur"
        if missing and covered:
            line += "; not reached: " + ", ".join(missing[:_SHOWN]) + ", ..." * (len(missing) > _SHOWN)
        if self.on_average:
            after = ", ".join(told(pattern) for pattern in sorted(self.on_average)[:_SHOWN])
            line += f"; right on average over earlier calls only, by samples: after {after}"
        return line + f" ({self.why})" * bool(missing and self.why)

    def _wrong_after(self, pattern: Pattern, number: int) -> CheckResult | None:
        """Judge the call after history ``number`` of a pattern, if there is one and it was not judged."""
        known = self.on_average | {suspect.history.pattern for suspect in self.still_open}
        if any(pattern[:size] in known for size in range(len(pattern) + 1)):
            return None
        reached = self.reached.setdefault(pattern, [])
        if len(reached) > number or (history := self._another(pattern)) is None:
            return None
        reached.append(history)
        lengths = {outcome.call.accepted for outcome in self.calls.after(history)}
        if max(lengths) > 0:
            self.case.code.drafts.seen |= Speculation(drafted=True, accepted=True)
        self.next_lengths.setdefault(pattern, set()).update(lengths)
        return self._wrong(history, pattern)

    def _wrong(self, history: History, pattern: Pattern) -> CheckResult | None:
        """Judge the call after a history; patterns of calls that samples find right, or open, are noted."""
        suspect = Suspect(self.case, self.calls, history, self.rounding, self.context)
        try:
            suspect.widen(ENGINE_ALIKE)
            if not suspect.is_off():
                self.judged.add(pattern)
                return None
            self.judged.discard(pattern)
            if not suspect.may_be_rounding():
                return self.decided(suspect, suspect.is_confirmed, effort.CLAIM_SHARE * self.context.budget)
            suspect.why = self.rounding.doubt
        except NotTracedError as error:
            suspect.needed, suspect.why = math.inf, f"not confirmed: {error}"
        self.still_open.append(suspect)
        return None

    def decided(
        self, suspect: Suspect, decide: Callable[[float, float], bool | None], seconds: float
    ) -> CheckResult | None:
        """Let completions decide whether a call is wrong; one that is right, or open, is noted."""
        self.rate_part /= 2
        before = suspect.draws
        verdict = decide(effort.CLAIM_PART * self.context.rate * self.rate_part, seconds)
        self.draws += suspect.draws - before
        self.still_open = [one for one in self.still_open if one is not suspect]
        if verdict is None:
            self.still_open.append(suspect)
        elif not verdict and suspect.is_off():
            self.on_average.add(suspect.history.pattern)
        if not verdict:
            return None
        return failed(
            str(suspect),
            how=How.PROVEN,
            alpha=self.context.rate,
            draws=suspect.draws,
            total_variation=suspect.total_variation,
            scope=(f"{suspect.draws:,} plain completions, too, follow what was traced and not the target",),
        )

    def _another(self, pattern: Pattern) -> History | None:
        """Return another history whose last calls have a pattern, of other calls before if that can be.

        What does not happen in the first calls may happen in later ones.
        """
        if not pattern:
            return None if self.reached[()] else History()
        reached = self.reached[pattern]
        for before in self._before(pattern, len(reached)):
            for found in self.calls.telling(before, pattern[-1], len(reached) + 1):
                if found not in reached:
                    return found
        return None

    def _before(self, pattern: Pattern, number: int) -> Iterator[History]:
        """Yield histories that the last call of a pattern may follow, the best first."""
        shorter = pattern[:-1]
        reached = self.reached.get(shorter, [])
        yield from (*reached[number:], *reached[:number])
        for length in self.seen:
            yield from self.reached.get((length, *shorter), [])
        for one in self.reached.get(shorter[:-1], [])[:1] if shorter and not number else []:
            yield from self.calls.telling(one, shorter[-1], max(ENGINE_HISTORIES))
