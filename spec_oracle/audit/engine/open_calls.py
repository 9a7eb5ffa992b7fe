"""A call after some history that is off: is that a defect? Ordinary completions decide.

They have all that is hidden on average, and they know nothing of tracing. A call gets few of them at first,
which suffice for gross defects. What they leave open is looked at again in the end: first on average over all
that earlier calls hide, which proves that drawing ahead is right; then by completions for as long as the
budget allows.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out, draws_needed
from spec_oracle.audit.engine.next_call import CallResult, History, Seen, TracedCalls, told
from spec_oracle.audit.engine.requests import Requests, shown
from spec_oracle.audit.engine.tracer import Asked
from spec_oracle.audit.experiment import Experiment, Sample
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.exact.completions import completion_gap, distance
from spec_oracle.exact.errors import NotTracedError

# Share of the time for a call that was left open which is for what earlier calls may hide.
ENGINE_SETTLING_SHARE: Final = 0.2


@dataclass
class OpenCall:
    """The call after a history, on average over what so many of the last calls hide, ``averaged``.

    ``needed`` completions would decide it, 0 if none would, and ``why`` says why it is undecided after so
    many ``draws``.
    """

    requests: Requests
    calls: TracedCalls
    label: str
    history: History
    averaged: int = field(default=0, init=False)
    draws: int = field(default=0, init=False)
    needed: float = field(default=0.0, init=False)
    why: str = field(default="", init=False)

    def __str__(self) -> str:
        law, expected = self.calls.laws(self.history, averaged=self.averaged)
        gap, history = completion_gap(law, expected), self.history
        after = f"after accepted lengths {told(history.pattern)}" if history.calls else "at first"
        follows = shown(gap.sequence[len(history.text) :])
        return (
            f"{self.label}: {after}, the next call is not distributed as the target (total variation "
            f"{distance(law, expected):.3g}): completion {shown(history.text)} goes on with {follows} with "
            f"probability {gap.actual:.4g}, target-only decoding gives it {gap.expected:.4g}"
        )

    @property
    def total_variation(self) -> float:
        """The distance of the next call from the target."""
        return self.calls.off(self.history, averaged=self.averaged)

    def is_right(self) -> bool:
        """Whether rounding counts as an explanation; raises `NotTracedError` where time is over."""
        width = self.calls.width(self.history)
        return self.requests.rounding.explains(self.total_variation, width)

    def may_be_rounding(self) -> bool:
        """Whether it may be rounding, so that no completions can decide."""
        width = self.calls.width(self.history)
        return self.requests.rounding.may_explain(self.total_variation, width)

    def widen(self, most: float) -> None:
        """Average over what more of the calls hide while it is off, over about ``most`` histories.

        Raises `NotTracedError` if there is no time for what the last call hides.
        """
        while not self.is_right() and self.averaged < len(self.history.calls):
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

    def is_settled(self, rate: float, seconds: float) -> bool | None:
        """Return the same by all that earlier calls hide, or by as many completions as ``seconds`` allow."""
        started = time.perf_counter()
        self.calls.ends = time.process_time() + ENGINE_SETTLING_SHARE * seconds
        with suppress(NotTracedError):
            self.widen(math.inf)
        if self.is_right():
            return False
        return self.is_wrong(rate, seconds - (time.perf_counter() - started), is_patient=True)

    def is_wrong(self, rate: float, seconds: float, *, is_patient: bool = False) -> bool | None:
        """Return whether completions confirm or refute it, None where more are needed; few, or patiently."""
        try:
            experiment, claimed = self._claim(ENGINE_SETTLING_SHARE * seconds)
        except NotTracedError as error:
            self.needed, self.why = math.inf, f"not confirmed: {error}"
            return None
        sample = Sample(experiment, experiment.cells)
        claim = np.array([*(claimed.get(outcome, 0.0) for outcome in sample.cells.outcomes), 0.0])
        sizes = {"pilot": effort.ENGINE_ROUND, "most": effort.ENGINE_MANY}
        try:
            if borne_out(sample, claim, rate=rate, seconds=seconds, is_patient=is_patient, **sizes):
                return True
        except NoEvidenceError:
            return False
        finally:
            drawn = int(sample.counts.sum())
            self.draws += drawn
        self.needed = draws_needed(claim, sample.law, rate)
        share = effort.CLAIM_SHARE * (1 - 2 * ENGINE_SETTLING_SHARE)
        budget = 10 * math.ceil(1.5 * self.needed * sample.seconds / drawn / share / 10)
        self.why = f"{self.draws:,} completions neither confirm nor refute it; about {self.needed:,.0f} would"
        self.why += f" (--budget {budget:,})"
        return None

    def _claim(self, seconds: float) -> tuple[Experiment, Mapping[Any, float]]:
        """Return the experiment of completions up to an open call, and what was traced of them.

        Outcomes are the call after its history, and after other likely ones of its pattern, with tokens that
        follow, up to the longest call; all else is one outcome. Where earlier calls may hide more, what is
        claimed is halfway to what was traced.
        """
        calls, hiding = self.calls, self._hiding()
        calls.ends = max(calls.ends, time.process_time() + seconds)
        part = 1.0 if self.averaged >= len(self.history.calls) else 0.5
        level, expected, claimed = {self.history.calls: self.history}, dict[Any, float](), dict[Any, float]()
        tokens = {self.history.calls: len(self.history.text) + calls.width(self.history)}
        with suppress(NotTracedError):
            level |= {other.calls: other for other in calls.likeliest(self.history.pattern)}
        for history in level.values():
            with suppress(NotTracedError):
                length = len(history.text) + calls.width(history)
                law, target = calls.laws(history, averaged=hiding)
                tokens[history.calls] = length
                for text in {**law, **target}:
                    right = target.get(text, 0.0)
                    expected[history.calls, text] = history.chance * right
                    claimed[history.calls, text] = history.chance * (
                        part * law.get(text, 0.0) + (1 - part) * right
                    )
        rest = ((), max(1 - math.fsum(expected.values()), 0.0))
        size, rng = len(self.history.calls), self.requests.context.stream("engine/patterns", self.draws)

        def outcome(seen: Seen) -> Any:
            text = tuple(token for emitted, _ in seen for token in emitted)
            before = tuple(CallResult(tuple(emitted), accepted) for emitted, accepted in seen[:size])
            found = before, text[: tokens.get(before, 0)]
            return found if found in expected else ()

        def call(engine: Any, seed: Callable[[], int]) -> Seen:
            chosen = None if calls.seed is None else seed()
            return calls.seen(engine, calls.tokens, max(tokens.values()), chosen)

        asked = Asked(calls.case.code, call, outcome, fresh=calls.fresh)
        many = lambda count: [asked.sampled(rng) for _ in range(count)]  # noqa: E731
        law = {**expected, rest[0]: rest[1]}
        return Experiment(str(self), "the next call", lambda: law, many), {**claimed, rest[0]: rest[1]}

    def _hiding(self) -> int:
        """Return how many calls hide anything that matters to the next one."""
        laws = [self.calls.laws(self.history, averaged=number)[0] for number in range(self.averaged + 1)]
        width, rounding = self.calls.width(self.history), self.requests.rounding
        is_same = (rounding.explains(distance(law, laws[-1]), width) for law in laws)
        return next(number for number, same in enumerate(is_same) if same)
