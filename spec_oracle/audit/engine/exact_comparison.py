"""The exact distribution of what an engine generates, beside that of target-only decoding.

Every outcome of every random number of whole generations is run. A run in which no random decision was seen
shows nothing where the target leaves a choice: the engine's random numbers are out of sight then.

*Rounding.* Engines compute in float32, so that the distribution of each token may be off by a little, given
all that came before it (`spec_oracle.audit.engine.rounding`). Completions are then off by at most that for
each of their tokens:
for laws P and Q of completions x_1..x_n, TV(P, Q) <= sum over t of E_P TV(P(x_t | x_<t), Q(x_t | x_<t)),
since exchanging the rows of one position after the other moves the law by the mean distance of the rows of
that position.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import cycle
from operator import or_
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import EngineCode, as_list, copy_of
from spec_oracle.contracts.speculation import Speculation, speculation_seen
from spec_oracle.exact.completions import Ids, distance, product, summed
from spec_oracle.exact.interception import NotTracedError, UnrepeatableError, enumerate_calls, outcomes
from spec_oracle.places import raised_at

ENGINE_LEAST_RUNS: Final = 300  # Runs that it may always take: the pace of the first ones says little.
# Times the budget, in processor time, at which no run of traced completions goes on.
ENGINE_OVERRUN: Final = 2.0
# Runs that one more token may take, in all, where nobody asked for that token.
ENGINE_MORE_RUNS: Final = 1500

SEEDS = (0, 1, 2**31 - 1, 2)
"""Seeds of requests that are traced, by turns: what they seed is traced as well."""

_CERTAIN = 1 - 1e-9


@dataclass(frozen=True)
class Asked:
    """What is asked of an engine, traced or not: ``label(call(engine, seed))``.

    The seed is None unless ``seeded``, and ``seed`` while it is traced. ``fresh``: of a copy that has
    generated nothing, every time.
    """

    code: EngineCode
    call: Callable[[object, int | None], object]
    label: Callable[[Any], object]
    seeded: bool = False
    fresh: bool = False
    seed: int = SEEDS[0]

    def sampled(self, rng: np.random.Generator) -> Any:
        """Ask once, plainly; with a fresh seed where requests have one."""
        engine = copy_of(self.code.unused) if self.fresh else self.code.engine
        with raising():
            returned = self.call(engine, int(rng.integers(2**31)) if self.seeded else None)
        return self.label(returned)


@dataclass(frozen=True)
class TracedLaw:
    """The exact law of what an engine returned; ``runs`` of it, and what was seen of its drafts.

    ``asked`` is what was traced: of fresh copies where generations change those that follow, as
    ``keeps_state`` says. ``decided`` if any random decision was seen.
    """

    law: Mapping[Any, float]
    runs: int
    speculation: Speculation
    asked: Asked
    decided: bool
    keeps_state: bool = False

    def require_decisions(self, expected: Mapping[Any, float]) -> None:
        """Raise `NoEvidenceError` where no decision was seen of what ``expected`` does not leave certain."""
        if not self.decided and max(expected.values()) < _CERTAIN:
            raise NoEvidenceError(
                "could not trace the random numbers: no random decision was seen, and the target leaves a "
                "choice; sampled instead"
            )


def completions_of(
    code: EngineCode, prompt: Ids, tokens: int, method: str = "generate", *, seeded: bool = False
) -> Asked:
    """Return what asks for one completion."""

    def call(engine: object, seed: int | None) -> list[object]:
        keywords = {} if seed is None else {"seed": seed}
        return as_list(getattr(engine, method)(list(prompt), tokens, **keywords))

    return Asked(code, call, lambda returned: code.checked(returned, tokens, method), seeded)


def traced_completions(
    code: EngineCode, prompt: Ids, tokens: int, most_runs: int, method: str = "generate"
) -> TracedLaw:
    """Return the exact law of one generation's completion; errors as of `traced`."""
    return traced(completions_of(code, prompt, tokens, method), most_runs)


def traced(asked: Asked, most_runs: int, end: float = math.inf) -> TracedLaw:
    """Return the law of what is asked; of fresh copies if generations change those that follow.

    ``end`` in seconds of `time.process_time`. Raises `NoEvidenceError` where the law would not be exact by
    then, or the engine raises while it is traced; `ContractError` for what cannot be a completion.
    """
    try:
        try:
            return _traced(asked, most_runs, end)
        except UnrepeatableError:
            if asked.code.unused is None or asked.fresh:
                raise
        return replace(_traced(replace(asked, fresh=True), most_runs, end), keeps_state=True)
    except (SubjectRaisedError, NotTracedError) as error:
        raised = "with traced ones it " * isinstance(error, SubjectRaisedError)
        place = raised_at(error)
        at = f" (at {place})" * bool(place and place not in str(error))
        why = f"could not trace the random numbers: {raised}{error}{at}; sampled instead"
        raise NoEvidenceError(why) from None


def _traced(asked: Asked, most_runs: int, end: float) -> TracedLaw:
    seed = asked.seed if asked.seeded else None

    def run() -> tuple[object, Speculation]:
        engine = copy_of(asked.code.unused) if asked.fresh else asked.code.engine
        with speculation_seen(engine) as seen:
            returned = asked.call(engine, seed)
        return returned, seen()

    with raising():
        left = end - time.process_time()
        branches = enumerate_calls(run, max_branches=most_runs, max_seconds=left, leave_open=True)
    found = [(mass, *result) for branch in branches for mass, result, _ in outcomes(branch)]
    law = summed((asked.label(returned), mass) for mass, returned, _ in found)
    seen = reduce(or_, (seen for *_, seen in found))
    return TracedLaw(law, len(branches), seen, asked, decided=len(found) > 1)


@dataclass(frozen=True)
class CompletionLaws:
    """The law of completions of at most ``tokens`` tokens, beside that of target-only decoding.

    ``reported`` is the law by the engine's rows, ``plain`` that of what it generates without speculation,
    where it can: that is target-only decoding then, and rows that differ from it are a mistake of the
    adapter. Of a pair the law is that of two completions, the second generated after the first. Raises
    `NoEvidenceError` where no decision was seen of what the target does not leave without choice.
    """

    case: Case
    tokens: int
    traced: TracedLaw
    reported: Mapping[Any, float]
    plain: TracedLaw | None = None
    is_pair: bool = False
    cost: tuple[int, float] = (0, 0.0)
    """Runs and seconds."""

    def __post_init__(self) -> None:
        for found in filter(None, (self.traced, self.plain)):
            found.require_decisions(self.reported)

    @property
    def expected(self) -> Mapping[object, float]:
        """The law of target-only decoding."""
        return self.reported if self.plain is None else self.plain.law

    @property
    def label(self) -> str:
        """What a reader is shown of the request."""
        return self.case.label + ", with a seed" * self.traced.asked.seeded

    @cached_property
    def total_variation(self) -> float:
        """Distance from target-only decoding."""
        return distance(self.traced.law, self.expected)

    @cached_property
    def rows_off(self) -> float:
        """Distance of the rows from target-only decoding."""
        return distance(self.reported, self.expected)

    @property
    def off(self) -> float:
        """The larger of both distances."""
        return max(self.total_variation, self.rows_off)


def is_wrong(found: Sequence[CompletionLaws], rounding: Rounding) -> bool:
    """Whether a law is farther from target-only decoding than rounding can explain."""
    return not all(rounding.may_explain(one.off, one.tokens) for one in found)


@dataclass
class Tracer:
    """Finds laws of completions within ``budget`` seconds; ``a_run`` takes one run, as far as is known.

    A law may always take some runs, however slow they are, but none goes on for `ENGINE_OVERRUN` times the
    budget. ``due`` is where the budget ends, in seconds of `time.process_time`.
    """

    budget: float
    a_run: float
    due: float = field(init=False)
    runs: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    seeds: Iterator[int] = field(default_factory=lambda: cycle(SEEDS), init=False)

    def __post_init__(self) -> None:
        self.due = time.process_time() + self.budget

    def compared(self, case: Case, tokens: int) -> CompletionLaws:
        """Return the law of one generation's completions, beside that of target-only decoding."""
        before, plain = (self.runs, self.seconds), None
        found = self._timed(completions_of(case.code, case.prompt, tokens))
        if case.code.has("generate_plain"):
            plain = self._timed(completions_of(case.code, case.prompt, tokens, "generate_plain"))
        cost = self.runs - before[0], self.seconds - before[1]
        return CompletionLaws(case, tokens, found, case.code.law(case.prompt, tokens), plain, cost=cost)

    def seeded(self, without: CompletionLaws) -> CompletionLaws:
        """Return the law of the same completions of requests with a seed."""
        case, tokens = without.case, without.tokens
        asked = completions_of(case.code, case.prompt, tokens, seeded=True)
        found = self._timed(replace(asked, seed=next(self.seeds)))
        return replace(without, traced=found, cost=(found.runs, 0.0))

    def pair(self, case: Case, then: Ids) -> CompletionLaws:
        """Return the law of two completions of a fresh engine, one after the other, beside the product."""
        code, requests = case.code, ((case.prompt, effort.ENGINE_FIRST_TOKENS), (then, 1))

        def both(engine: Any, seed: int | None) -> list[list[Any]]:
            del seed
            return [as_list(engine.generate(list(prompt), tokens)) for prompt, tokens in requests]

        def checked(returned: list[list[Any]]) -> tuple[Ids, ...]:
            pairs = zip(returned, requests, strict=True)
            return tuple(code.checked(some, tokens) for some, (_, tokens) in pairs)

        found = self._timed(Asked(code, both, checked, fresh=code.unused is not None))
        expected = product([code.law(prompt, tokens) for prompt, tokens in requests])
        return CompletionLaws(case, effort.ENGINE_FIRST_TOKENS + 1, found, expected, is_pair=True)

    def can_afford_another(self, costs: Sequence[tuple[int, float]]) -> bool:
        """Whether one more token is cheap: laws grow by a factor with each, at most by the last one."""
        (runs_before, seconds_before), (runs, seconds) = costs[-2:]
        return (
            runs * runs / runs_before <= ENGINE_MORE_RUNS
            and seconds * seconds / seconds_before <= self.budget - self.seconds
        )

    def _timed(self, asked: Asked) -> TracedLaw:
        left = (self.budget - self.seconds) / self.a_run
        started = time.perf_counter()
        most = int(min(max(left, ENGINE_LEAST_RUNS), effort.ENGINE_RUNS))
        found = traced(asked, most, self.due + (ENGINE_OVERRUN - 1) * self.budget)
        took = time.perf_counter() - started
        self.seconds += took
        self.runs += found.runs
        # Other work on the machine makes runs longer, never shorter.
        self.a_run = min(self.a_run, took / found.runs)
        return found
