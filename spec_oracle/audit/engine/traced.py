"""Exact distributions of what engines generate: every outcome of every random number of whole generations.

*Rounding.* Engines compute in float32, so that the distribution of each token may be off by the subject's
tolerance given all that came before it. Completions are then off by at most that for each of their tokens:
for laws P and Q of completions x_1..x_n, TV(P, Q) <= sum over t of E_P TV(P(x_t | x_<t), Q(x_t | x_<t)),
since exchanging the rows of one position after the other moves the law by the mean distance of the rows of
that position.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.laws import (
    TracedLaw,
    distance,
    product,
    target_law,
    traced_completions,
    traced_pairs,
)
from spec_oracle.audit.engine.sampled import confirmed, scope_of, shown
from spec_oracle.audit.engine.speculation import Speculation
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.facts import ROUNDING, Facts
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    How,
    Status,
    WrongCompletion,
    failed,
    inconclusive,
    passed,
)
from spec_oracle.contracts.engine import Ids
from spec_oracle.exact import Gap


def traced_first_tokens(cases: Sequence[Case], facts: Facts, context: Context) -> CheckResult:
    """Find the laws of the first tokens after every prompt.

    Completions are one token longer where only that shows what drafts do. Raises `NoEvidenceError` where a
    law would not be exact, or samples contradict it.
    """
    tracer, found, seen = Tracer.tried(cases, context), list[Compared](), Speculation()
    for tokens in range(1, (context.tokens or effort.ENGINE_LEAST_TOKENS) + 1):
        if tokens > effort.ENGINE_FIRST_TOKENS and not seen.missing:
            break
        found += [tracer.compared(case, tokens) for case in cases]
        for compared in found:
            seen |= compared.traced.speculation
        if any(compared.is_off(facts.tolerance) for compared in found):
            break
    result = _judged_and_confirmed(found, facts, context, tracer)
    if result.status is Status.PASSED and seen.missing:
        result = replace(result, status=Status.INCONCLUSIVE, detail=seen.missing)
    return replace(result, notes=seen.notes)


def traced_longer(cases: Sequence[Case], facts: Facts, context: Context) -> CheckResult:
    """Find the laws of longer completions, and of two generations in a row; errors as above."""
    tracer, found, costs = Tracer.tried(cases, context), list[Compared](), list[tuple[int, float]]()
    for tokens in range(effort.ENGINE_FIRST_TOKENS, (context.tokens or effort.ENGINE_MOST_TOKENS) + 1):
        is_wanted = tokens <= effort.ENGINE_LEAST_TOKENS or context.tokens is not None
        if not is_wanted and not tracer.can_afford_another(costs):
            break
        before = tracer.runs, tracer.seconds
        found += [tracer.compared(case, tokens) for case in cases]
        costs.append((tracer.runs - before[0], tracer.seconds - before[1]))
        if any(compared.is_off(facts.tolerance) for compared in found):
            return _judged_and_confirmed(found, facts, context, tracer)
    for name in dict.fromkeys(case.name for case in cases):
        own = [case for case in cases if case.name == name]
        found.append(tracer.pair(own[0], own[-1].prompt))
    return _judged_and_confirmed(found, facts, context, tracer)


@dataclass
class Tracer:
    """Finds laws of completions within ``budget`` seconds; ``a_run`` takes one run, as far as is known."""

    budget: float
    a_run: float
    runs: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    @classmethod
    def tried(cls, cases: Sequence[Case], context: Context) -> "Tracer":
        """Try every engine without instruments, and return what traces within the budget.

        Raises `ContractError` where completions are none, `SubjectRaisedError` where an engine raises.
        """
        fastest = math.inf
        for case in cases:
            case.code.row(case.prompt)
            for tokens in range(1, effort.ENGINE_LEAST_TOKENS + 1):
                started = time.perf_counter()
                case.code.generated(case.prompt, tokens)
                fastest = min(fastest, time.perf_counter() - started)
        return cls(context.budget, effort.ENGINE_TRACING * fastest)

    def compared(self, case: Case, tokens: int) -> "Compared":
        """Return the law of one generation's completions, beside that of target-only decoding."""
        find = partial(traced_completions, case.code, case.prompt, tokens)
        found, plain = self._timed(find), None
        if case.code.has("generate_plain"):
            plain = self._timed(partial(find, method="generate_plain")).law
        return Compared(case, tokens, found, target_law(case.code, case.prompt, tokens), plain)

    def pair(self, case: Case, then: Ids) -> "Compared":
        """Return the law of two completions of a fresh engine, one after the other, beside the product."""
        requests = ((case.prompt, effort.ENGINE_FIRST_TOKENS), (then, 1))
        found = self._timed(partial(traced_pairs, case.code, requests))
        expected = product([target_law(case.code, prompt, tokens) for prompt, tokens in requests])
        return Compared(case, effort.ENGINE_FIRST_TOKENS + 1, found, expected, is_pair=True)

    def can_afford_another(self, costs: Sequence[tuple[int, float]]) -> bool:
        """Whether one more token is cheap: laws grow by a factor with each, at most by the last one."""
        (runs_before, seconds_before), (runs, seconds) = costs[-2:]
        return (
            runs * runs / runs_before <= effort.ENGINE_MORE_RUNS
            and seconds * seconds / seconds_before <= self.budget - self.seconds
        )

    def _timed(self, find: Callable[..., TracedLaw]) -> TracedLaw:
        left = (self.budget - self.seconds) / self.a_run
        started = time.perf_counter()
        found = find(most_runs=int(min(max(left, effort.ENGINE_LEAST_RUNS), effort.ENGINE_RUNS)))
        took = time.perf_counter() - started
        self.seconds += took
        self.runs += found.runs
        # Other work on the machine makes runs longer, never shorter.
        self.a_run = min(self.a_run, took / found.runs)
        return found


@dataclass(frozen=True)
class Compared:
    """The law of completions of at most ``tokens`` tokens, beside that of target-only decoding.

    ``reported`` is the law by the engine's rows, ``plain`` that of what it generates without speculation,
    where it can: that is target-only decoding then, and rows that differ from it are a mistake of the
    adapter. Of a pair the law is that of two completions, the second generated after the first.
    """

    case: Case
    tokens: int
    traced: TracedLaw
    reported: Mapping[Any, float]
    plain: Mapping[Any, float] | None = None
    is_pair: bool = False

    @property
    def expected(self) -> Mapping[Any, float]:
        """The law of target-only decoding."""
        return self.reported if self.plain is None else self.plain

    @cached_property
    def total_variation(self) -> float:
        """Distance from target-only decoding."""
        return distance(self.traced.law, self.expected)

    @cached_property
    def rows_off(self) -> float:
        """Distance of the rows from target-only decoding."""
        return distance(self.reported, self.expected)

    def is_off(self, tolerance: float) -> bool:
        """Whether rounding by ``tolerance`` a token does not explain a distance."""
        return max(self.total_variation, self.rows_off) > self.tokens * tolerance

    @property
    def gap(self) -> Gap:
        """The completion with the largest gap."""
        law, expected = self.traced.law, self.expected
        gaps = {one: abs(law.get(one, 0.0) - expected.get(one, 0.0)) for one in {*law, *expected}}
        worst = min(gaps, key=lambda one: (-round(gaps[one], 9), one))
        return Gap(worst, expected.get(worst, 0.0), law.get(worst, 0.0))


def _judged_and_confirmed(
    found: Sequence[Compared], facts: Facts, context: Context, tracer: Tracer
) -> CheckResult:
    result = judged(found, facts.tolerance)
    lengths = sorted({compared.tokens for compared in found})
    cases = list(dict.fromkeys(compared.case for compared in found))
    longest = {c.case: c for c in sorted(found, key=lambda c: c.tokens) if not c.is_pair}
    agrees = confirmed(
        [(case, compared.tokens, dict(compared.traced.law)) for case, compared in longest.items()], context
    )
    worst = largest(found)
    off = WrongCompletion(worst.case.name, worst.case.prompt, worst.tokens, worst.gap, worst.total_variation)
    return replace(
        result,
        scope=(scope_of(cases, lengths, f"traced in {counted(tracer.runs, 'run')}"), agrees),
        shown=off if result.status is Status.FAILED else None,
        findings=Findings(
            total_variation=max(compared.total_variation for compared in found),
            smallest_detectable_tv=lengths[-1] * facts.tolerance,
            is_reference_wrong=any(c.rows_off > c.tokens * facts.tolerance for c in found),
        ),
    )


def judged(found: Sequence[Compared], tolerance: float) -> CheckResult:
    """Say whether all laws are those of target-only decoding, up to rounding by ``tolerance`` a token."""
    worst = largest(found)
    if worst.total_variation > worst.tokens * tolerance:
        return failed(_failure(worst), total_variation=worst.total_variation, how=How.PROVEN)
    wrong = max(found, key=lambda compared: compared.rows_off / compared.tokens)
    if wrong.is_off(tolerance):
        return inconclusive(
            "generate and generate_plain agree, but next_token_probs reports another distribution (total "
            f"variation {wrong.rows_off:.3g} of {counted(wrong.tokens, 'token')}, {wrong.case}): correct it",
            how=How.PROVEN,
        )
    gap = max(compared.total_variation for compared in found)
    longest = max(compared.tokens for compared in found)
    detail = f"{counted(len(found), 'exact distribution')} of up to {counted(longest, 'token')}: "
    rounding = ", float32 rounding" if gap > ROUNDING else ""
    return passed(f"{detail}total variation at most {gap:.1e}{rounding}", total_variation=gap, how=How.PROVEN)


def largest(found: Sequence[Compared]) -> Compared:
    """Return what is farthest from target-only decoding, measured by the rounding that it is allowed."""
    return max(found, key=lambda compared: compared.total_variation / compared.tokens)


def _failure(worst: Compared) -> str:
    gap = worst.gap
    found = (
        f"{worst.case}: completion {shown(gap.sequence)} has probability {gap.actual:.4g}, target-only "
        f"decoding gives it {gap.expected:.4g} (total variation {worst.total_variation:.3g} of "
        f"{counted(worst.tokens, 'token')})"
    )
    kept = "; a generation changes the next ones" if worst.traced.keeps_state or worst.is_pair else ""
    wrong = "; next_token_probs differs from generate_plain too" if worst.rows_off > ROUNDING * 1e6 else ""
    return found + kept + wrong


def counted(count: int, what: str) -> str:
    """Return a number of things."""
    return f"{count:,} {what}{'s' * (count != 1)}"
