"""A call after some history that is not distributed as the target: is that a defect? Completions decide.

Uninstrumented completions have all that is hidden on average, and they know nothing of tracing. A suspect
gets few of them at first, which suffice for gross defects. What they leave open is looked at again in the
end, when all patterns were judged: first on average over all that its calls hide, which proves that drawing
ahead is right; then by completions for as long as the budget allows, with as many histories of its pattern
as can be traced, since each alone is rare.
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out, draws_needed
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.next_call import CallResult, History, Seen, TracedCalls, told
from spec_oracle.audit.engine.requests import shown
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import Asked
from spec_oracle.audit.experiment import Experiment, OutcomeCells, Sample
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.exact.completions import Ids, completion_gap, distance, summed
from spec_oracle.exact.errors import NotTracedError

# Share of the time for a call that was left open which is for all that earlier calls may hide, and share for
# further histories; the rest is for samples.
ENGINE_SETTLING_SHARE: Final = 0.2


@dataclass
class Suspect:
    """The call after a history that is off; ``draws`` completions were sampled for it so far.

    ``averaged``: over what so many of the last calls hide it is off; ``is_exact`` if that is all of them.
    ``needed`` are completions that would decide it, 0 if none would, and ``why`` says why it is undecided.
    """

    case: Case
    calls: TracedCalls
    history: History
    rounding: Rounding
    context: Context
    draws: int = field(default=0, init=False)
    averaged: int = field(default=0, init=False)
    needed: float = field(default=0.0, init=False)
    why: str = field(default="", init=False)

    @property
    def is_exact(self) -> bool:
        """Whether it is off on average over all that its calls hide."""
        return self.averaged >= len(self.history.calls)

    @property
    def total_variation(self) -> float:
        """The distance of the next call from the target."""
        return self.calls.off(self.history, averaged=self.averaged)

    def is_off(self) -> bool:
        """Whether rounding does not count as an explanation; raises `NotTracedError` where time is over."""
        return not self.rounding.explains(self.total_variation, self.calls.width(self.history))

    def widen(self, most: float) -> None:
        """Average over what more of the calls hide while it is off, over about so many histories at most.

        Raises `NotTracedError` if there is no time for what the last call hides.
        """
        while self.is_off() and not self.is_exact:
            deeper = self.averaged + 1
            try:
                if deeper > 1 and len(self.calls.alike(self.history, deeper)) > most:
                    return
                self.calls.off(self.history, averaged=deeper)
            except NotTracedError:
                if not self.averaged:
                    raise
                return
            self.averaged = deeper

    def may_be_rounding(self) -> bool:
        """Whether it may be rounding, so that no completions can decide."""
        return self.rounding.may_explain(self.total_variation, self.calls.width(self.history))

    def __str__(self) -> str:
        law, expected = self.calls.laws(self.history, averaged=self.averaged)
        gap, history = completion_gap(law, expected), self.history
        after = f"after accepted lengths {told(history.pattern)}" if history.calls else "at first"
        follows = shown(gap.sequence[len(history.text) :])
        return (
            f"{self.case.label}: {after}, the next call is not distributed as the target (total variation "
            f"{distance(law, expected):.3g}): completion {shown(history.text)} goes on with {follows} with "
            f"probability {gap.actual:.4g}, target-only decoding gives it {gap.expected:.4g}"
        )

    def is_confirmed(self, rate: float, seconds: float) -> bool | None:
        """Return whether a few completions confirm or refute it, None where more are needed."""
        self.calls.ends = max(self.calls.ends, time.process_time() + seconds)
        level = self.calls.likeliest(self.history.pattern)
        return self._decided(level, rate, seconds, is_patient=False)

    def is_settled(self, rate: float, seconds: float) -> bool | None:
        """Return the same of as many completions as ``seconds`` allow, and of all that its calls hide."""
        started = time.perf_counter()
        self.calls.ends = time.process_time() + ENGINE_SETTLING_SHARE * seconds
        with suppress(NotTracedError):
            self.widen(math.inf)
        if not self.is_off():
            return False
        level = self._many_likeliest(ENGINE_SETTLING_SHARE * seconds)
        return self._decided(level, rate, seconds - (time.perf_counter() - started), is_patient=True)

    def _many_likeliest(self, seconds: float) -> list[History]:
        """Return likely histories of the pattern, as many as can be traced in that time."""
        level, count, hiding = [self.history], effort.ENGINE_LIKELY, self._hiding
        self.calls.ends = time.process_time() + seconds
        with suppress(NotTracedError):
            while True:
                more = self.calls.likeliest(self.history.pattern, count)
                for one in more:
                    self.calls.laws(one, averaged=hiding)
                level, count = more, 2 * count
                if len(more) < count // 2:
                    break
        return level

    @property
    def _hiding(self) -> int:
        """How many calls hide anything that matters to the next one."""
        laws = [self.calls.laws(self.history, averaged=n)[0] for n in range(self.averaged + 1)]
        width = self.calls.width(self.history)
        is_same = (self.rounding.explains(distance(law, laws[-1]), width) for law in laws)
        return next(number for number, same in enumerate(is_same) if same)

    def _decided(self, level: list[History], rate: float, seconds: float, *, is_patient: bool) -> bool | None:
        sample, claimed = self._sample(level)
        try:
            is_confirmed = borne_out(
                sample,
                claimed,
                rate=rate,
                seconds=seconds,
                pilot=effort.ENGINE_ROUND,
                most=effort.ENGINE_MANY,
                is_patient=is_patient,
            )
        except NoEvidenceError:
            return False
        finally:
            drawn = int(sample.counts.sum())
            self.draws += drawn
        if is_confirmed:
            return True
        self.needed = draws_needed(claimed, sample.law, rate)
        share = effort.CLAIM_SHARE * (1 - 2 * ENGINE_SETTLING_SHARE)
        budget = 10 * math.ceil(1.5 * self.needed * sample.seconds / drawn / share / 10)
        self.why = f"{self.draws:,} completions neither confirm nor refute it; about {self.needed:,.0f} would"
        self.why += f" (--budget {budget:,})"
        return None

    def _sample(self, level: list[History]) -> tuple[Sample, NDArray[np.float64]]:
        """Return what samples completions up to the call after a history, and the law [C] that is claimed.

        Outcomes are its calls, and those of other histories of its pattern, with the tokens that follow, as
        many as show the defect; all else is one outcome. Where earlier calls may hide more, what is claimed
        is halfway to what was traced.
        """
        level = list({one.calls: one for one in (*level, self.history)}.values())
        length, size, part = len(self.history.text), len(self.history.calls), 1.0 if self.is_exact else 0.5
        hiding = self._hiding
        found = [self.calls.laws(one, averaged=hiding) for one in level]

        def cut(law: Mapping[Ids, float], count: int) -> dict[Ids, float]:
            return summed((text[: length + count], mass) for text, mass in law.items())

        by_count = {
            count: [(cut(law, count), cut(target, count)) for law, target in found]
            for count in range(1, max(map(self.calls.width, level)) + 1)
        }
        gaps = {count: sum(distance(*both) for both in laws) for count, laws in by_count.items()}
        count = next(count for count, gap in gaps.items() if 2 * gap >= max(gaps.values()))
        number, claimed, expected = dict[object, int](), list[float](), list[float]()
        for one, (law, target) in zip(level, by_count[count], strict=True):
            for text in {**law, **target}:
                number[one.calls, text] = len(number)
                right = target.get(text, 0.0)
                expected.append(one.chance * right)
                claimed.append(one.chance * (part * law.get(text, 0.0) + (1 - part) * right))

        def outcome(seen: Seen) -> object:
            text = tuple(token for emitted, _ in seen for token in emitted)
            calls = tuple(CallResult(tuple(emitted), accepted) for emitted, accepted in seen[:size])
            return calls, text[: length + count]

        asked = Asked(
            self.case.code,
            lambda engine, _: self.calls.seen(engine, self.calls.tokens, length + count),
            outcome,
            fresh=self.calls.fresh,
        )
        rest, rng = max(1 - sum(expected), 0.0), self.context.stream("engine/patterns", self.draws)

        def cells(seen: Sequence[object]) -> NDArray[np.int64]:
            return np.array([number.get(one, len(number)) for one in seen], np.int64)

        calls = Experiment("", "", dict, lambda many: [asked.sampled(rng) for _ in range(many)])
        return Sample(calls, OutcomeCells(np.array([*expected, rest]), cells)), np.array([*claimed, rest])
