"""The call after every pattern of accepted lengths of the last three calls (theory.md, section 7).

If every call, whatever the calls before it did, emits as the target would, then so is every completion
distributed. So the engine is run to a history of each pattern, with a seed and without, and the next call
alone is enumerated: that costs the branches of one call, and shows what breaks after two full acceptances or
after a rejection behind one. `generate` must return what `steps` shows, under the same random decisions.

A right engine may fail it: drafts that were made ahead are known given all decisions, and rules with
carry-over are right on average over accepted lengths only. So a call that is off is judged again on average
over what earlier calls hide; calls after one that is off are not judged; and nothing is called wrong that
ordinary completions do not confirm, which have all that is hidden on average. What they cannot decide within
the budget is undecided: the engine is not lossless then.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Final

from spec_oracle.audit import effort
from spec_oracle.audit.engine.next_call import History, Pattern, TracedCalls, told
from spec_oracle.audit.engine.open_calls import OpenCall
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import SEEDS
from spec_oracle.audit.experiment import require_certain
from spec_oracle.audit.results import Cause, CheckResult, How, NoEvidenceError, failed, inconclusive, passed
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import as_list
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import UnrepeatableError, sample_call

# Most tokens of the histories from which `calls` traces one call, and more where drafts are longer.
ENGINE_CALLS_TOKENS: Final = 24
# Histories of a pattern of no, one, two and three calls from which the next one is traced.
ENGINE_HISTORIES: Final = (1, 3, 2, 2)
# Histories of the same calls over which the next one is averaged, before samples are taken.
ENGINE_ALIKE: Final = 64

CALLS = 3
"""Accepted lengths that make a pattern."""

_SHOWN = 6
_NO_LIMIT = 10**9


def after_patterns(requests: Requests, cases: Sequence[Case], rate: float, seconds: float) -> CheckResult:
    """Judge the next call after every pattern of accepted lengths, for the first prompt of each engine.

    All within ``seconds`` of processor time, but for samples that confirm a defect: engines in turn, each
    with an equal part of what is left, and once more with what others left over; calls that few samples left
    open come last.
    """
    firsts = [*{case.name: case for case in reversed(cases)}.values()][::-1]
    seeds = [None, SEEDS[0]] if all(case.code.steps_take_seeds for case in firsts) else [None]
    walks = [Patterns(requests, case, seed) for seed in seeds for case in firsts]
    for walk in walks:
        walk.rate = effort.CLAIM_PART * rate / len(walks)
    ends = time.process_time() + seconds
    for _ in range(2):
        for number, walk in enumerate(walks):
            now = time.process_time()
            walk.calls.ends = now + (ends - now) / (len(walks) - number)
            if (wrong := walk.wrong()) is not None:
                return wrong
    settled = _settled(walks, effort.CLAIM_SHARE * requests.context.budget)
    if settled is not None:
        return settled
    draws, scope = sum(one.draws for one in walks), (*_scope(walks),)
    left = [one for walk in walks for one in walk.open]
    unlike = next((walk.unlike for walk in walks if walk.unlike), "")
    if unlike:
        return inconclusive(unlike, how=How.PROVEN, draws=draws, scope=scope)
    if not left:
        return passed("", how=How.PROVEN, draws=draws, scope=scope)
    first = max(left, key=lambda one: one.draws)
    more = f" ({len(left)} such calls are undecided)" * (len(left) > 1)
    how = How.SAMPLED if first.draws else How.PROVEN
    detail = f"{first}; {first.why}{more}"
    return inconclusive(detail, how=how, draws=draws, scope=scope, cause=Cause.UNDECIDED)


def _settled(walks: Sequence["Patterns"], seconds: float) -> CheckResult | None:
    """Decide calls that are open, those that need the fewest completions first; return a defect."""
    ends = time.perf_counter() + seconds
    waiting = [(walk, one) for walk in walks for one in walk.open if one.needed]
    for walk, one in sorted(waiting, key=lambda both: both[1].needed):
        left = ends - time.perf_counter()
        if left > 0 and (wrong := walk.decided(one, one.is_settled, left)) is not None:
            return wrong
    return None


def _scope(walks: Sequence["Patterns"]) -> Iterator[str]:
    """Yield a line for each engine, and one for all of which nothing is known for the same reason."""
    yield from (one.covered() for one in walks if one.seen)
    silent = [one for one in walks if not one.seen]
    for why in dict.fromkeys(one.why for one in silent):
        labels = list(dict.fromkeys(one.case.label for one in silent if one.why == why))
        count = len({one.case.name for one in walks})
        who = labels[0] if len(labels) == 1 else f"{len(labels)} of {count} engines"
        yield f"{who}: no call after others was traced ({why})"


@dataclass
class Patterns:
    """What is known of the call after each pattern, of requests with a ``seed`` or without.

    ``reached`` are histories of it, ``next_lengths`` the accepted lengths of the calls after these;
    ``judged`` those after which the call is the target's, ``on_average`` those after which it depends on more
    than the text. ``rate`` is what claims may still spend. ``why`` says why it was given up, ``unlike`` where
    `generate` does otherwise than `steps`.
    """

    requests: Requests
    case: Case
    seed: int | None
    rate: float = 0.0
    calls: TracedCalls = field(init=False)
    reached: dict[Pattern, list[History]] = field(default_factory=dict, init=False)
    on_average: set[Pattern] = field(default_factory=set, init=False)
    judged: set[Pattern] = field(default_factory=set, init=False)
    open: list[OpenCall] = field(default_factory=list, init=False)
    next_lengths: dict[Pattern, set[int]] = field(default_factory=dict, init=False)
    draws: int = field(default=0, init=False)
    why: str = field(default="", init=False)
    unlike: str = field(default="", init=False)

    def __post_init__(self) -> None:
        length = int(getattr(self.case.code.engine, "draft_length", 0))
        tokens = max(ENGINE_CALLS_TOKENS, (CALLS + 1) * (length + 1) + 1)
        self.calls = TracedCalls(self.case, tokens, seed=self.seed)

    @property
    def label(self) -> str:
        """What a person reads."""
        return self.case.label + ", with a seed" * (self.seed is not None)

    @property
    def seen(self) -> set[int]:
        """All accepted lengths of any call."""
        return {length for lengths in self.next_lengths.values() for length in lengths}

    def _wanted(self) -> list[Pattern]:
        lengths = sorted(self.seen)
        return [pattern for size in range(CALLS + 1) for pattern in product(lengths, repeat=size)]

    def wrong(self) -> CheckResult | None:
        """Judge the calls after patterns that were not, shortest first, then after further histories."""
        self.why = ""
        try:
            for number in range(max(ENGINE_HISTORIES) if self.seed is None else 1):
                # What is reached by way of longer patterns comes in a later turn.
                for _ in range(CALLS):
                    tried = set[Pattern]()
                    while left := [one for one in self._wanted() if one not in tried]:
                        tried.add(left[0])
                        if number < ENGINE_HISTORIES[len(left[0])]:
                            found = self._wrong_after(left[0], number)
                            if found is not None:
                                return found
        except (NotTracedError, NoEvidenceError) as error:
            self.why = str(error)
        return None

    def _wrong_after(self, pattern: Pattern, number: int) -> CheckResult | None:
        """Judge the call after history ``number`` of a pattern, if there is one and it was not judged."""
        known = self.on_average | {one.history.pattern for one in self.open}
        if any(pattern[:size] in known for size in range(len(pattern) + 1)):
            return None
        reached = self.reached.setdefault(pattern, [])
        if len(reached) > number or (history := self._another(pattern)) is None:
            return None
        lengths = {outcome.call.accepted for outcome in self.calls.after(history)}
        if not pattern and len(self.calls.after(history)) == 1:
            require_certain(self.calls.laws(history, averaged=0)[1])
        reached.append(history)
        if max(lengths) > 0:
            self.case.code.drafts.seen |= Speculation(drafted=True, accepted=True)
        self.next_lengths.setdefault(pattern, set()).update(lengths)
        if not number:
            self._note_unlike(history)
        one = OpenCall(self.requests, self.calls, self.label, history)
        try:
            one.widen(ENGINE_ALIKE)
        except NotTracedError as error:
            one.needed, one.why = math.inf, f"not confirmed: {error}"
            self.open.append(one)
            return None
        if one.is_right():
            self.judged.add(pattern)
            return None
        self.judged.discard(pattern)
        if one.may_be_rounding():
            one.why = self.requests.rounding.doubt
            self.open.append(one)
            return None
        return self.decided(one, one.is_wrong, effort.CLAIM_SHARE * self.requests.context.budget)

    def decided(
        self, one: OpenCall, decide: Callable[[float, float], bool | None], seconds: float
    ) -> CheckResult | None:
        """Let completions decide whether a call is wrong; one that is right, or open, is noted."""
        self.rate /= 2
        before = one.draws
        verdict = decide(self.rate, seconds)
        self.draws += one.draws - before
        self.open = [other for other in self.open if other is not one]
        if verdict is None:
            self.open.append(one)
        elif not verdict and not one.is_right():
            self.on_average.add(one.history.pattern)
        elif not verdict:
            self.judged.add(one.history.pattern)
        if not verdict:
            return None
        return failed(
            str(one),
            how=How.PROVEN,
            alpha=self.requests.context.rate,
            draws=one.draws,
            total_variation=one.total_variation,
            scope=(f"{one.draws:,} plain completions, too, follow what was traced and not the target",),
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

    def _note_unlike(self, history: History) -> None:
        """Note whether `generate` returns other tokens than `steps` shows, under the same random decisions.

        What cannot be traced of it is not compared.
        """
        calls, left = self.calls, self.calls.ends - time.process_time()

        def by_steps() -> list[Any]:
            seen = calls.seen(calls.engine, _NO_LIMIT, _NO_LIMIT, self.seed)
            return [token for emitted, _ in seen for token in emitted]

        def by_generate() -> list[Any]:
            seeds = {} if self.seed is None else {"seed": self.seed}
            return as_list(calls.engine.generate([*self.case.prompt], calls.tokens, **seeds))

        leaves, rng = [], partial(self.requests.context.stream, "engine/steps", *history.text)
        try:
            for run in (by_steps, by_generate):
                with raising():
                    leaves.append(sample_call(run, rng(), left, history.script))
        except UnrepeatableError:
            pass
        except (NotTracedError, SubjectRaisedError):
            return
        one, other = ([*leaves, None])[:2]
        if one is None or (
            other is not None
            and one.result == other.result
            and math.isclose(one.log_chance, other.log_chance, abs_tol=1e-6)
        ):
            return
        what = "other tokens" if other and one.result != other.result else "other random decisions"
        after = f" after accepted lengths {told(history.pattern)}" * bool(history.calls)
        self.unlike = self.unlike or (
            f"{self.label}: under the same random decisions generate makes {what} than steps{after}, so that "
            "calls after patterns say nothing of it; let generate return what steps yields"
        )

    def covered(self) -> str:
        """Return a line on which patterns were covered."""
        wanted = list(product(sorted(self.seen), repeat=CALLS))
        covered, others = self.judged.intersection(wanted), [one for one in wanted if one not in self.judged]
        missing = [told(pattern) for pattern in others if not self._never_occurs(pattern)]
        line = (
            f"{self.label}: the next call alone after {len(covered)} of {len(covered) + len(missing)} "
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

    def _never_occurs(self, pattern: Pattern) -> bool:
        """Whether no call after some beginning of the pattern accepted what comes next in it."""
        return any(pattern[n] not in self.next_lengths.get(pattern[:n], self.seen) for n in range(1, CALLS))
