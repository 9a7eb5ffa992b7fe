"""The call after every pattern of accepted lengths of the last three calls (theory.md, section 7).

If every call, whatever the calls before it did, emits as the target would, then so is every completion
distributed. So the engine is run to a history of each pattern, and the next call alone is enumerated: that
costs the branches of one call, and shows what breaks after two full acceptances or after a rejection behind
one. `generate` must return what `steps` shows, under the same random decisions.

A right engine may fail it: drafts that were made ahead are known given all decisions, and rules with
carry-over are right on average over accepted lengths only. So a call that is off is judged again on average
over what earlier calls hide; calls after one that is off are not judged; and nothing is called wrong that
ordinary completions do not confirm, which have all that is hidden on average. What they cannot decide within
the budget is undecided: the engine is not lossless then.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out, draws_needed
from spec_oracle.audit.engine.next_call import CallResult, History, Pattern, Seen, TracedCalls, told
from spec_oracle.audit.engine.requests import Requests, shown
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import Asked
from spec_oracle.audit.experiment import Experiment, Sample, require_certain
from spec_oracle.audit.results import Cause, CheckResult, How, NoEvidenceError, failed, inconclusive, passed
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import as_list
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.completions import completion_gap, distance
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import UnrepeatableError, sample_call

# Most tokens of the histories from which `calls` traces one call, and more where drafts are longer.
ENGINE_CALLS_TOKENS: Final = 24
ENGINE_HISTORIES: Final = 2  # Histories of a pattern from which the next call is traced.
# Histories of the same calls over which the next one is averaged, before samples are taken.
ENGINE_ALIKE: Final = 64
# Share of the time for samples of a call that is off which is for what earlier calls may hide.
ENGINE_HIDDEN_SHARE: Final = 0.2

CALLS = 3
"""Accepted lengths that make a pattern."""

_SHOWN = 6
_NO_LIMIT = 10**9


def after_patterns(requests: Requests, cases: Sequence[Case], rate: float, seconds: float) -> CheckResult:
    """Judge the next call after every pattern of accepted lengths, for the first prompt of each engine.

    All within ``seconds`` of processor time, but for samples that confirm a defect: engines in turn, each
    with an equal part of what is left, and once more with what others left over.
    """
    firsts = [*{case.name: case for case in reversed(cases)}.values()][::-1]
    walks = [Patterns(requests, case) for case in firsts]
    ends = time.process_time() + seconds
    for walk in walks:
        walk.rate = effort.CLAIM_PART * rate / len(walks)
    for number, walk in enumerate(2 * walks):
        now = time.process_time()
        walk.calls.ends = now + (ends - now) / (len(walks) - number % len(walks))
        if (wrong := walk.wrong()) is not None:
            return wrong
    draws, scope = sum(one.draws for one in walks), (*dict.fromkeys(one.covered() for one in walks),)
    unlike = [walk.unlike for walk in walks if walk.unlike]
    left = unlike or [why for walk in walks for why in walk.open.values()]
    if not left:
        return passed("", how=How.PROVEN, draws=draws, scope=scope)
    more = f" ({len(left)} such calls are undecided)" * (len(left) > 1 and not unlike)
    cause, how = None if unlike else Cause.UNDECIDED, How.PROVEN if unlike or not draws else How.SAMPLED
    return inconclusive(left[0] + more, how=how, draws=draws, scope=scope, cause=cause)


@dataclass
class Patterns:
    """What is known of the call after each pattern.

    ``waiting`` are histories whose next call was not traced yet, ``tried`` counts the others by pattern.
    ``judged`` are patterns after which the call is the target's, ``on_average`` those after which it depends
    on more than the text, ``open`` those after which it is undecided, and why. ``rate`` is what claims may
    still spend. ``why`` says why it was given up, ``unlike`` where `generate` does otherwise than `steps`.
    """

    requests: Requests
    case: Case
    rate: float = 0.0
    calls: TracedCalls = field(init=False)
    waiting: list[History] = field(default_factory=lambda: [History()], init=False)
    tried: Counter[Pattern] = field(default_factory=Counter, init=False)
    found: set[Pattern] = field(default_factory=set, init=False)
    lengths: set[int] = field(default_factory=set, init=False)
    ends: set[tuple[Pattern, Any]] = field(default_factory=set, init=False)
    judged: set[Pattern] = field(default_factory=set, init=False)
    on_average: set[Pattern] = field(default_factory=set, init=False)
    open: dict[Pattern, str] = field(default_factory=dict, init=False)
    draws: int = field(default=0, init=False)
    why: str = field(default="", init=False)
    unlike: str = field(default="", init=False)

    def __post_init__(self) -> None:
        length = int(getattr(self.case.code.engine, "draft_length", 0))
        tokens = max(ENGINE_CALLS_TOKENS, (CALLS + 1) * (length + 1) + 1)
        self.calls = TracedCalls(self.case, tokens)

    def wrong(self) -> CheckResult | None:
        """Judge the calls after patterns that were not, shortest first, then after further histories."""
        self.why = ""
        try:
            while (history := self._next()) is not None:
                if (found := self._wrong_after(history)) is not None:
                    return found
        except (NotTracedError, NoEvidenceError) as error:
            self.why = str(error)
        return None

    def _next(self) -> History | None:
        """Return the history to go on with: of the pattern that was tried least, then the shortest.

        Of several histories of a pattern one with another last token than before comes first: after it a lost
        or repeated token shows that may not show after others.
        """
        off = self.on_average | self.open.keys()
        few = [one for one in self.waiting if self.tried[_last(one)] < ENGINE_HISTORIES]
        some = [one for one in few if _last(one) not in off]

        def order(one: History) -> tuple[float, ...]:
            known = (_last(one), one.text[-1:]) in self.ends
            return self.tried[_last(one)], len(one.calls), known, -one.chance

        return min(some, key=order, default=None)

    def _wrong_after(self, history: History) -> CheckResult | None:
        """Judge the call after a history; return a defect."""
        pattern, after = _last(history), self.calls.after(history)
        if not pattern and len(after) == 1:
            require_certain(self.calls.laws(history, 0)[1])
        lengths = {outcome.call.accepted for outcome in after}
        if max(lengths) > 0:
            self.case.code.drafts.seen |= Speculation(drafted=True, accepted=True)
        averaged = self._averaged(history, ENGINE_ALIKE)
        self.waiting.remove(history)
        self.lengths |= lengths
        self.unlike = self.unlike or ("" if self.tried[pattern] else self._unlike(history))
        self.tried[pattern] += 1
        self.ends.add((pattern, history.text[-1:]))
        longer = self.calls.longer(history)
        self.found |= {pattern, *map(_last, longer)}
        rounding, width = self.requests.rounding, self.calls.width(history)
        off = distance(*self.calls.laws(history, averaged))
        if rounding.explains(off, width):
            self.judged.add(pattern)
            self.waiting += longer
            return None
        self.judged.discard(pattern)
        said = self._said(history, averaged)
        if rounding.may_explain(off, width):
            self.open[pattern] = f"{said}; {rounding.doubt}"
            return None
        return self._decided(history, averaged, said)

    def _averaged(self, history: History, most: float) -> int:
        """Return over what so many of the last calls hide the next one is right; or how many hide anything.

        Averaged over about ``most`` histories at most.
        """
        rounding, width = self.requests.rounding, self.calls.width(history)
        laws = [self.calls.laws(history, 0)]
        with suppress(NotTracedError):
            while not rounding.explains(distance(*laws[-1]), width) and len(laws) <= len(history.calls):
                if len(laws) > 1 and len(self.calls.alike(history, len(laws))) > most:
                    break
                laws.append(self.calls.laws(history, len(laws)))
        return next(
            n for n, (law, _) in enumerate(laws) if rounding.explains(distance(law, laws[-1][0]), width)
        )

    def _said(self, history: History, averaged: int) -> str:
        law, expected = self.calls.laws(history, averaged)
        gap = completion_gap(law, expected)
        after = f"after accepted lengths {told(history.pattern)}" if history.calls else "at first"
        follows = shown(gap.sequence[len(history.text) :])
        return (
            f"{self.case.label}: {after}, the next call is not distributed as the target (total variation "
            f"{distance(law, expected):.3g}): completion {shown(history.text)} goes on with {follows} with "
            f"probability {gap.actual:.4g}, target-only decoding gives it {gap.expected:.4g}"
        )

    def _decided(self, history: History, averaged: int, said: str) -> CheckResult | None:
        """Let ordinary completions decide whether a call that is off is a defect; return it if it is.

        They have all that is hidden on average, and they know nothing of tracing. A call that they cannot
        decide may still be right on average over all that earlier calls hide.
        """
        budget, pattern, calls = self.requests.context.budget, _last(history), self.calls
        seconds, before = effort.CLAIM_SHARE * budget, calls.ends
        self.rate /= 2
        calls.ends = max(before, time.process_time() + ENGINE_HIDDEN_SHARE * seconds)
        experiment, claimed = self._claim(history, averaged, said)
        sample = Sample(experiment, experiment.cells)
        claim = np.array([*(claimed[outcome] for outcome in sample.cells.outcomes), 0.0])
        decided = partial(borne_out, pilot=effort.ENGINE_ROUND, most=effort.ENGINE_MANY)
        is_wrong, is_right = False, False
        try:
            is_wrong = decided(sample, claim, rate=self.rate, seconds=seconds)
        except NoEvidenceError:
            is_right = True
        drawn = int(sample.counts.sum())
        self.draws += drawn
        if is_wrong:
            agree = f"{drawn:,} plain completions, too, follow what was traced and not the target"
            tv = distance(*calls.laws(history, averaged))
            rate = self.requests.context.rate
            return failed(said, how=How.PROVEN, alpha=rate, draws=drawn, total_variation=tv, scope=(agree,))
        if is_right:
            self.on_average.add(pattern)
            calls.ends = before
            return None
        calls.ends = time.process_time() + ENGINE_HIDDEN_SHARE * seconds
        law, expected = calls.laws(history, self._averaged(history, math.inf))
        if self.requests.rounding.explains(distance(law, expected), calls.width(history)):
            self.judged.add(pattern)
            self.waiting += calls.longer(history)
        else:
            needed = draws_needed(claim, sample.law, self.rate)
            more = 10 * math.ceil(1.5 * needed * sample.seconds / drawn / effort.CLAIM_SHARE / 10)
            why = f"{drawn:,} completions neither confirm nor refute it; about {needed:,.0f} would"
            self.open[pattern] = f"{said}; {why} (--budget {more:,})"
        calls.ends = before
        return None

    def _claim(self, history: History, averaged: int, said: str) -> tuple[Experiment, Mapping[Any, float]]:
        """Return the experiment of completions up to a call that is off, and what was traced of them.

        Outcomes are the call after its history, and after others of its pattern, with tokens that follow, up
        to the longest call; all else is one outcome.
        """
        calls, size = self.calls, len(history.calls)
        others = [one for one in self.waiting if one.pattern == history.pattern]
        others.sort(key=lambda one: -one.chance)
        expected, claimed, tokens = (
            dict[Any, float](),
            dict[Any, float](),
            dict[tuple[CallResult, ...], int](),
        )
        for one in (history, *others[: effort.ENGINE_LIKELY]):
            with suppress(NotTracedError):
                law, target = calls.laws(one, averaged)
                tokens[one.calls] = max(map(len, target))
                for text in {**law, **target}:
                    expected[one.calls, text] = one.chance * target.get(text, 0.0)
                    claimed[one.calls, text] = one.chance * law.get(text, 0.0)
        rest: dict[Any, float] = {(): max(1 - math.fsum(expected.values()), 0.0)}

        def outcome(seen: Seen) -> Any:
            text = tuple(token for emitted, _ in seen for token in emitted)
            before = tuple(CallResult(tuple(emitted), accepted) for emitted, accepted in seen[:size])
            found = before, text[: tokens.get(before, 0)]
            return found if found in expected else ()

        def call(engine: Any, _: Callable[[], int]) -> Seen:
            return calls.seen(engine, calls.tokens, max(tokens.values()))

        rng = self.requests.context.stream("engine/patterns", self.draws)
        asked, law = Asked(calls.case.code, call, outcome, rng, calls.fresh), {**expected, **rest}
        return Experiment(said, "the next call", lambda: law, asked.many), {**claimed, **rest}

    def _unlike(self, history: History) -> str:
        """Say if `generate` does otherwise than `steps` shows, under the same random decisions, "" if not.

        What cannot be traced of it is not compared.
        """
        calls, left = self.calls, self.calls.ends - time.process_time()
        rng = partial(self.requests.context.stream, "engine/steps", *history.text)

        def by_steps() -> list[Any]:
            seen = calls.seen(calls.engine, _NO_LIMIT, _NO_LIMIT)
            return [token for emitted, _ in seen for token in emitted]

        def by_generate() -> list[Any]:
            return as_list(calls.engine.generate([*self.case.prompt], calls.tokens))

        with suppress(NotTracedError, SubjectRaisedError), raising():
            one, other = sample_call(by_steps, rng(), left, history.script), None
            with suppress(UnrepeatableError):
                other = sample_call(by_generate, rng(), left, history.script)
            if (
                other is None
                or one.result != other.result
                or not math.isclose(one.log_chance, other.log_chance, abs_tol=1e-6)
            ):
                after = f" after accepted lengths {told(history.pattern)}" * bool(history.calls)
                return (
                    f"{self.case.label}: under the same random decisions generate makes other ones, or other "
                    f"tokens, than steps{after}, so that calls after patterns say nothing of it; let "
                    "generate return what steps yields"
                )
        return ""

    def covered(self) -> str:
        """Return a line on which patterns were covered."""
        if not self.lengths:
            return f"{self.case.label}: no call after others was traced ({self.why})"
        every = list(product(sorted(self.lengths), repeat=CALLS))
        known = every if self.why else [one for one in every if one in self.found]
        covered, missing = (
            len(self.judged.intersection(every)),
            [one for one in known if one not in self.judged],
        )
        line = (
            f"{self.case.label}: the next call alone after {covered} of {covered + len(missing)} "
            f"patterns of three accepted lengths, traced in {self.calls.runs:,} runs"
        )
        if never := len(every) - len(known):
            line += f"; {never:,} more did not occur"
        if missing and covered:
            some = [told(pattern) for pattern in missing[:_SHOWN]]
            line += "; not reached: " + ", ".join(some) + ", ..." * (len(missing) > _SHOWN)
        if self.on_average:
            after = ", ".join(told(pattern) for pattern in sorted(self.on_average)[:_SHOWN])
            line += f"; right on average over earlier calls only, by samples: after {after}"
        return line + f" ({self.why})" * bool(missing and self.why)


def _last(history: History) -> Pattern:
    """Return the accepted lengths of the last calls."""
    return history.pattern[-CALLS:]
