"""The call after every pattern of accepted lengths of the last three calls (theory.md, section 7).

If every call, whatever the calls before it did, emits as the target would, then so is every completion
distributed. So the engine is run to a history of each pattern, and the next call alone is enumerated: that
costs the branches of one call, and shows what breaks after two full acceptances or after a rejection behind
one.

A right engine may fail it: drafts that were made ahead are known given all decisions, and rules with
carry-over are right on average over accepted lengths only. So a call that is off is judged again on average
over what the last call hides; calls after one that is off are not judged; and nothing is called wrong that
uninstrumented completions do not confirm, which have all that is hidden on average.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.confirm import PlainSample
from spec_oracle.audit.engine.exact_comparison import Asked
from spec_oracle.audit.engine.next_call import Call, Calls, History, Pattern, Seen, told
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.wording import shown
from spec_oracle.audit.results import CheckResult, How, NoEvidenceError, failed, inconclusive, passed
from spec_oracle.exact.completions import Ids, completion_gap, distance, summed
from spec_oracle.exact.errors import NotTracedError

CALLS = 3
"""Accepted lengths that make a pattern."""

_SHOWN = 6


def after_patterns(cases: Sequence[Case], tolerance: float, context: Context, seconds: float) -> CheckResult:
    """Judge the next call after every pattern of accepted lengths, for the first prompt of each engine.

    All within ``seconds`` of processor time, but for samples that confirm a defect. Engines of which least is
    left come first, so that as many as possible are done; second histories of a pattern come last.
    """
    firsts = {case.name: case for case in reversed(cases)}.values()
    every = [
        Patterns(case, tolerance, context, seconds, 0.5 ** (number + 1))
        for number, case in enumerate([*firsts][::-1])
    ]
    for number in range(max(effort.ENGINE_HISTORIES)):
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
    return passed("", how=How.PROVEN, draws=sum(one.draws for one in every), scope=(*_scope(every),))


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
    than the text. Calls are traced for ``seconds``; ``rate_part`` of the rate is this engine's. ``why`` says
    why it was given up; ``took`` is the time that it took.
    """

    case: Case
    tolerance: float
    context: Context
    seconds: float
    rate_part: float
    calls: Calls = field(init=False)
    reached: dict[Pattern, list[History]] = field(default_factory=dict, init=False)
    on_average: set[Pattern] = field(default_factory=set, init=False)
    judged: set[Pattern] = field(default_factory=set, init=False)
    next_lengths: dict[Pattern, set[int]] = field(default_factory=dict, init=False)
    draws: int = field(default=0, init=False)
    why: str = field(default="", init=False)
    took: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        length = int(getattr(self.case.code.engine, "draft_length", 0))
        tokens = max(effort.ENGINE_CALLS_TOKENS, (CALLS + 1) * (length + 1) + 1)
        self.calls = Calls(self.case, tokens, self.seconds)

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
                if number < effort.ENGINE_HISTORIES[len(pattern)]:
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
        if any(pattern[:size] in self.on_average for size in range(len(pattern) + 1)):
            return None
        reached = self.reached.setdefault(pattern, [])
        if len(reached) > number or (history := self._another(pattern)) is None:
            return None
        reached.append(history)
        lengths = {outcome.call.accepted for outcome in self.calls.after(history)}
        self.next_lengths.setdefault(pattern, set()).update(lengths)
        wrong = self._wrong(history)
        if history.pattern in self.on_average:
            self.judged.discard(pattern)
        elif wrong is None:
            self.judged.add(pattern)
        return wrong

    def _wrong(self, history: History) -> CheckResult | None:
        """Judge the call after a history; patterns of calls that samples find right are noted."""
        allowed = self.calls.width(history) * self.tolerance
        if self.calls.off(history, averaged=False) <= allowed:
            return None
        try:
            is_wrong = self.calls.off(history, averaged=True) > allowed
            return self._confirmed(history) if is_wrong else None
        except NotTracedError as error:
            return inconclusive(f"{self._said(history)}; not confirmed: {error}")

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
            yield from self.calls.telling(one, shorter[-1], max(effort.ENGINE_HISTORIES))

    def _said(self, history: History) -> str:
        law, expected = self.calls.laws(history, averaged=True)
        gap = completion_gap(law, expected)
        after = f"after accepted lengths {told(history.pattern)}" if history.calls else "at first"
        follows = shown(gap.sequence[len(history.text) :])
        return (
            f"{self.case.label}: {after}, the next call is not distributed as the target (total variation "
            f"{distance(law, expected):.3g}): completion {shown(history.text)} goes on with {follows} with "
            f"probability {gap.actual:.4g}, target-only decoding gives it {gap.expected:.4g}"
        )

    def _confirmed(self, history: History) -> CheckResult | None:
        """Let uninstrumented completions decide whether a call is wrong; None, and a note, if it is not."""
        said, budget = self._said(history), effort.CLAIM_SHARE * self.context.budget
        self.calls.ends = max(self.calls.ends, time.process_time() + budget)
        sample, claimed = self._sample(history)
        self.rate_part /= 2
        try:
            is_confirmed = borne_out(
                sample,
                claimed,
                rate=effort.CLAIM_PART * self.context.rate * self.rate_part,
                seconds=budget,
                pilot=effort.ENGINE_ROUND,
                most=effort.ENGINE_MANY,
            )
        except NoEvidenceError:
            self.on_average.add(history.pattern)
            is_confirmed = None
        draws = int(sample.counts.sum())
        self.draws += draws
        if is_confirmed is None:
            return None
        if not is_confirmed:
            return inconclusive(f"{said}; {draws:,} completions are too few to confirm it; raise --budget")
        return failed(
            said,
            how=How.PROVEN,
            alpha=self.context.rate,
            draws=draws,
            total_variation=self.calls.off(history, averaged=True),
            scope=(f"{draws:,} plain completions, too, follow what was traced and not the target",),
        )

    def _sample(self, history: History) -> tuple[PlainSample, NDArray[np.float64]]:
        """Return what samples completions up to the call after a history, and the law [C] that is claimed.

        Outcomes are its calls, and the likeliest ones of its pattern, with the tokens that follow, as many as
        show the defect; all else is one outcome. What is claimed is halfway to what was traced: other
        decisions may have led to the same calls.
        """
        level = list({one.calls: one for one in (*self.calls.likeliest(history.pattern), history)}.values())
        length, size = len(history.text), len(history.calls)
        laws = {averaged: self.calls.laws(history, averaged=averaged)[0] for averaged in (False, True)}
        hides = distance(laws[False], laws[True]) > self.calls.width(history) * self.tolerance
        found = [self.calls.laws(one, averaged=hides) for one in level]

        def cut(law: Mapping[Ids, float], count: int) -> dict[Ids, float]:
            return summed((text[: length + count], mass) for text, mass in law.items())

        by_count = {
            count: [(cut(law, count), cut(target, count)) for law, target in found]
            for count in range(1, max(map(self.calls.width, level)) + 1)
        }
        gaps = {count: sum(distance(*both) for both in laws) for count, laws in by_count.items()}
        count = next(count for count, gap in gaps.items() if 2 * gap >= max(gaps.values()))
        number, claimed, expected = dict[Any, int](), list[float](), list[float]()
        for one, (law, target) in zip(level, by_count[count], strict=True):
            for text in {**law, **target}:
                number[one.calls, text] = len(number)
                expected.append(one.chance * target.get(text, 0.0))
                claimed.append(one.chance * (law.get(text, 0.0) + target.get(text, 0.0)) / 2)

        def outcome(seen: Seen) -> Any:
            text = tuple(token for emitted, _ in seen for token in emitted)
            return tuple(Call(tuple(emitted), accepted) for emitted, accepted in seen[:size]), text[
                : length + count
            ]

        asked = Asked(
            self.case.code,
            lambda engine, _: self.calls.seen(engine, self.calls.tokens, length + count),
            outcome,
            fresh=self.calls.fresh,
        )
        rest = 1 - sum(expected)
        sample = PlainSample(
            asked, number, np.array([*expected, rest]), self.context.stream("engine/patterns")
        )
        return sample, np.array([*claimed, rest])
