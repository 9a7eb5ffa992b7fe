"""The call after every pattern of accepted lengths of the last three calls (theory.md, section 7).

If every call, whatever the calls before it did, emits as the target would, then so is every completion
distributed. So the engine is run to histories of each pattern, without a seed and with one, and the next call
alone is enumerated: that costs the branches of one call, and shows what breaks after two full acceptances or
after a rejection behind one. `generate` must return what `steps` shows, under the same random decisions.

The next call of a right engine may be off given all decisions before it: drafts may have been made ahead,
and rules with carry-over are right on average over accepted lengths only. So a call that is off is averaged
over what earlier calls hide. Calls after one that is still off are not judged, and only ordinary completions
can call it wrong: they have all that is hidden on average. What they cannot decide within the budget is
undecided, and the engine is not lossless then.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, product
from typing import Any, Final, TypeAlias

from spec_oracle.audit import effort
from spec_oracle.audit.engine.next_call import CallResult, History, Pattern, Seen, TracedCalls, describe
from spec_oracle.audit.engine.requests import Requests, shown
from spec_oracle.audit.engine.subject import Case, first_prompts
from spec_oracle.audit.engine.tracer import Asked, seeds_from
from spec_oracle.audit.experiment import Experiment, FoundBy, Ledger, TracedOutcome, find, first_failure
from spec_oracle.audit.results import (
    CheckResult,
    How,
    NoEvidenceError,
    Status,
    inconclusive,
    passed,
    remarked,
)
from spec_oracle.contracts.speculation import Speculation
from spec_oracle.exact.completions import Ids, distance, summed
from spec_oracle.exact.errors import NotTracedError

LET_THEM_AGREE: Final = (
    "let generate return what steps yields; if it does, look at what the engine keeps of a request before, "
    "such as of a stream that was left: the next one must not depend on it"
)

# Most tokens of the histories from which `calls` traces one call, and more where drafts are longer.
ENGINE_CALLS_TOKENS: Final = 24
# Histories of a pattern from which the next call is traced; of requests with a seed it is one.
ENGINE_HISTORIES: Final = 3
# Histories of the same calls over which the next one is averaged, before samples are taken.
ENGINE_ALIKE: Final = 64

CALLS = 3
"""Accepted lengths that make a pattern."""

_SHOWN = 6

NextText: TypeAlias = tuple[Ids, Ids]
"""The tokens of a history, and those of the next call, followed by tokens of the target."""


def after_patterns(requests: Requests, cases: Sequence[Case], rate: float, seconds: float) -> CheckResult:
    """Judge the next call after every pattern of accepted lengths, for the first prompt of each engine.

    All within ``seconds`` of processor time: engines in turn, each with an equal part of what is left, and in
    what they leave once more with a seed. Samples that decide whether a call is wrong take time of their own.
    """
    firsts, ends, walks = first_prompts(cases), time.process_time() + seconds, list[Patterns]()
    for some, is_seeded in ((firsts, False), ([one for one in firsts if one.code.steps_take_seeds], True)):
        for number, case in enumerate(some):
            seed = next(seeds_from(0, case.code.own_seeds)) if is_seeded else None
            now = time.process_time()
            walks.append(Patterns(requests, case, now + (ends - now) / (len(some) - number), seed))
            walks[-1].trace()
    parts = [partial(walk.decided, pattern) for walk in walks for pattern in walk.off]
    found = first_failure(rate, *parts) if parts else passed("", how=How.PROVEN)
    unlike = [walk.unlike for walk in walks if walk.unlike]
    if unlike and found.status is not Status.FAILED:
        found = inconclusive(unlike[0], how=How.PROVEN, do=LET_THEM_AGREE)
    return remarked(found, scope=(*(walk.covered() for walk in walks), *found.remarks.scope))


@dataclass
class Patterns:
    """The next call of one engine after each pattern, traced before ``ends`` of `time.process_time`.

    Requests have the ``seed``, if there is one. ``lengths`` and ``found`` are the accepted lengths and the
    patterns that occurred, ``judged`` the patterns after which the call is the target's, ``off`` the
    experiments after all others. Of the latter completions may say that they are right ``on_average``.
    ``why`` says why tracing ended early, ``unlike`` where `generate` does otherwise than `steps`.
    """

    requests: Requests
    case: Case
    ends: float
    seed: int | None
    label: str = field(init=False)
    calls: TracedCalls = field(init=False)
    lengths: set[int] = field(default_factory=set, init=False)
    found: set[Pattern] = field(default_factory=set, init=False)
    judged: set[Pattern] = field(default_factory=set, init=False)
    off: dict[Pattern, Experiment] = field(default_factory=dict, init=False)
    on_average: list[Pattern] = field(default_factory=list, init=False)
    why: str = field(default="", init=False)
    unlike: str = field(default="", init=False)

    def __post_init__(self) -> None:
        length = int(getattr(self.case.code.engine, "draft_length", 0))
        tokens = max(ENGINE_CALLS_TOKENS, (CALLS + 1) * (length + 1) + 1)
        self.calls = TracedCalls(self.case, tokens, self.ends, self.seed)
        self.label = self.case.label + ", with a seed" * (self.seed is not None)

    def trace(self) -> None:
        """Trace the call after each pattern, those of the fewest calls first."""
        histories = [History()]
        try:
            while histories:
                each = [(pattern, [*some]) for pattern, some in groupby(sorted(histories, key=_last), _last)]
                longer = [one for pattern, some in each for one in self._after(pattern, some)]
                histories = [one for one in longer if _last(one) not in {*self.judged, *self.off}]
        except (NotTracedError, NoEvidenceError) as error:
            self.why = str(error)

    def _after(self, pattern: Pattern, histories: Sequence[History]) -> list[History]:
        """Trace the call after a pattern; return the histories that go on from there."""
        some, ledger = _likeliest(histories, ENGINE_HISTORIES if self.seed is None else 1), Ledger(math.inf)
        experiment = self._experiment(pattern, some)
        ledger.trace(experiment)
        self.unlike = self.unlike or self._unlike(some[0])
        self.lengths |= {outcome.call.accepted for one in some for outcome in self.calls.after(one)}
        if max(self.lengths) > 0:
            self.case.code.drafts.seen |= Speculation(drafted=True, accepted=True)
        longer = [after for one in some for after in self.calls.longer(one)]
        self.found |= {pattern, *map(_last, longer)}
        if ledger.worst.is_right:
            self.judged.add(pattern)
            return longer
        self.off[pattern] = experiment
        return []

    def _experiment(self, pattern: Pattern, histories: Sequence[History]) -> Experiment:
        """Return the experiment of the next call after some histories of a pattern, given that one occurs."""
        calls, width = self.calls, max(map(self.calls.width, histories))
        laws = [self._laws(one) for one in histories]
        total = math.fsum(one.chance for one in histories)
        tokens = {one.calls: max(map(len, law)) for one, (_, law) in zip(histories, laws, strict=True)}

        def mixed(of: Sequence[Mapping[Ids, float]]) -> dict[NextText, float]:
            """Return the distribution after one of the histories, weighted by their probabilities."""
            return summed(
                ((one.text, text[len(one.text) :]), one.chance * mass / total)
                for one, law in zip(histories, of, strict=True)
                for text, mass in law.items()
            )

        def trace(_: int, __: float) -> TracedOutcome:
            is_decided = bool(pattern) or len(calls.after(histories[0])) > 1
            return TracedOutcome(mixed([law for law, _ in laws]), calls.runs, is_decided)

        what = f"the call after accepted lengths {describe(pattern)}" if pattern else "the first call"
        return Experiment(
            f"{self.label}, {what}",
            "one call",
            lambda: mixed([expected for _, expected in laws]),
            self._runs(tokens),
            trace,
            allowed=width * self.requests.rounding.a_token,
            doubtful=width * self.requests.rounding.unsure,
            shown=lambda one: f"completion {shown(one)}",
            is_conditional=True,
        )

    def _laws(self, history: History) -> tuple[Mapping[Ids, float], Mapping[Ids, float]]:
        """Return the distribution of the text after the next call, and the target's.

        Averaged over what ever more of the last calls hide, until it is right, or there are too many to run.
        """
        calls, laws, width = self.calls, self.calls.laws(history, 0), self.calls.width(history)
        with suppress(NotTracedError):
            for last in range(1, len(history.calls) + 1):
                if self.requests.rounding.explains(distance(*laws), width):
                    break
                if last > 1 and len(calls.alike(history, last)) > ENGINE_ALIKE:
                    break
                laws = calls.laws(history, last)
        return laws

    def _runs(self, tokens: Mapping[tuple[CallResult, ...], int]) -> Callable[[int], list[NextText]]:
        """Return the function that samples texts after some histories, of so many ``tokens`` each.

        A text is that of a history and its next call, up to so many tokens; other runs have none.
        """
        calls, (size, *_) = self.calls, map(len, tokens)

        def outcome(seen: Seen) -> NextText | None:
            before = tuple(CallResult(tuple(emitted), accepted) for emitted, accepted in seen[:size])
            text = [tuple(emitted) for emitted, _ in seen]
            first = sum(text[:size], ())
            return (first, sum(text, ())[len(first) : tokens[before]]) if before in tokens else None

        def call(engine: Any, fresh: Callable[[], int]) -> Seen:
            seed = None if self.seed is None else fresh()
            return calls.seen(engine, calls.tokens, max(tokens.values()), seed)

        rng = self.requests.context.stream("engine/patterns", len(self.found))
        asked = Asked(self.case.code, call, outcome, rng, calls.fresh)
        return lambda count: [one for one in asked.many(count) if one is not None]

    def decided(self, pattern: Pattern, rate: float) -> CheckResult:
        """Let ordinary completions decide whether the call after a pattern is a defect."""
        requests, context = self.requests, replace(self.requests.context, rate=rate)
        sizes = replace(requests.effort(), pilot=effort.ENGINE_ROUND, most=effort.ENGINE_MANY)
        found = find([self.off[pattern]], context, sizes, ways=FoundBy.TRACED, doubt=requests.rounding.doubt)
        if found.how is not None:
            return replace(found, measured=replace(found.measured, alpha=rate))
        self.on_average.append(pattern)
        return passed("", how=How.PROVEN)

    def _unlike(self, history: History) -> str:
        """Say if `generate` returns other tokens than `steps` under equal random decisions, "" if not."""
        rng = partial(self.requests.context.stream, "engine/steps", *history.text)
        if self.calls.generates_alike(history, rng):
            return ""
        after = f" after accepted lengths {describe(history.pattern)}" * bool(history.calls)
        return (
            f"{self.label}: under the same random decisions generate makes other ones, or other "
            f"tokens, than steps{after}, so that calls after patterns say nothing of it"
        )

    def covered(self) -> str:
        """Return a line on which patterns were covered."""
        if not self.lengths:
            return f"{self.label}: no call after others was traced ({self.why})"
        every = [*product(sorted(self.lengths), repeat=CALLS)]
        known = every if self.why else [one for one in every if one in self.found]
        missing = [one for one in known if one not in self.judged]
        covered = len(known) - len(missing)
        line = (
            f"{self.label}: the next call alone after {covered} of {len(known)} "
            f"patterns of three accepted lengths, traced in {self.calls.runs:,} runs"
        )
        if never := len(every) - len(known):
            line += f"; {never:,} more did not occur"
        if missing and covered:
            line += f"; not reached: {_listed(missing)}" + ", ..." * (len(missing) > _SHOWN)
        if self.on_average:
            line += "; right on average over earlier calls only, by samples: after "
            line += _listed(sorted(self.on_average))
        return line + f" ({self.why})" * bool(missing and self.why)


def _last(history: History) -> Pattern:
    """Return the accepted lengths of the last calls."""
    return history.pattern[-CALLS:]


def _likeliest(histories: Sequence[History], most: int) -> list[History]:
    """Return a few histories, the likeliest first, if possible with different last tokens.

    After another token a lost or repeated one shows that may not show after others.
    """
    ordered = sorted(histories, key=lambda one: -one.chance)
    firsts = {one.text[-1:]: one for one in reversed(ordered)}.values()
    return sorted(ordered, key=lambda one: one not in firsts)[:most]


def _listed(patterns: Iterable[Pattern]) -> str:
    return ", ".join(describe(pattern) for pattern in [*patterns][:_SHOWN])
