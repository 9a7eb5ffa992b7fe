"""Exact distributions of what engines generate: every outcome of every random number of whole generations.

*Rounding.* Engines compute in float32, so that the distribution of each token may be off by the subject's
tolerance given all that came before it. Completions are then off by at most that for each of their tokens:
for laws P and Q of completions x_1..x_n, TV(P, Q) <= sum over t of E_P TV(P(x_t | x_<t), Q(x_t | x_<t)),
since exchanging the rows of one position after the other moves the law by the mean distance of the rows of
that position.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any, TypeVar

from spec_oracle.audit import effort, streams
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.sampled import confirmed, scope_of, shown
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.facts import ROUNDING, Facts
from spec_oracle.audit.results import CheckResult, Findings, How, NoEvidenceError, Status, WrongCompletion
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import EngineCode, Speculation, as_list, copy_of, speculation_seen
from spec_oracle.exact.completions import Ids, completion_gap, distance, product, summed
from spec_oracle.exact.interception import NotTracedError, UnrepeatableError, enumerate_calls, outcomes

Label = TypeVar("Label", bound=Hashable)


def traced_first_tokens(cases: Sequence[Case], facts: Facts, context: Context, seconds: float) -> CheckResult:
    """Find the laws of the first tokens after every prompt.

    Completions are one token longer where only that shows what drafts do. A generation takes ``seconds``
    without instruments. Raises `NoEvidenceError` where a law would not be exact, or samples contradict it.
    """
    tracer = Tracer(context.budget, effort.ENGINE_TRACING * seconds)
    found, seen = list[Compared](), Speculation()
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


def traced_longer(cases: Sequence[Case], facts: Facts, context: Context, seconds: float) -> CheckResult:
    """Find the laws of longer completions, and of two generations in a row; errors as above."""
    tracer, found = Tracer(context.budget, effort.ENGINE_TRACING * seconds), list[Compared]()
    costs = list[tuple[int, float]]()
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

    def compared(self, case: Case, tokens: int) -> "Compared":
        """Return the law of one generation's completions, beside that of target-only decoding."""
        find = partial(traced_completions, case.code, case.prompt, tokens)
        found, plain = self._timed(find), None
        if case.code.has("generate_plain"):
            plain = self._timed(partial(find, method="generate_plain")).law
        return Compared(case, tokens, found, case.code.law(case.prompt, tokens), plain)

    def pair(self, case: Case, then: Ids) -> "Compared":
        """Return the law of two completions of a fresh engine, one after the other, beside the product."""
        code, requests = case.code, ((case.prompt, effort.ENGINE_FIRST_TOKENS), (then, 1))

        def both(engine: Any) -> list[list[Any]]:
            return [as_list(engine.generate(list(prompt), tokens)) for prompt, tokens in requests]

        def checked(returned: list[list[Any]]) -> tuple[Ids, ...]:
            pairs = zip(returned, requests, strict=True)
            return tuple(code.checked(some, tokens) for some, (_, tokens) in pairs)

        found = self._timed(partial(traced, code, both, checked, fresh=code.unused is not None))
        expected = product([code.law(prompt, tokens) for prompt, tokens in requests])
        return Compared(case, effort.ENGINE_FIRST_TOKENS + 1, found, expected, is_pair=True)

    def can_afford_another(self, costs: Sequence[tuple[int, float]]) -> bool:
        """Whether one more token is cheap: laws grow by a factor with each, at most by the last one."""
        (runs_before, seconds_before), (runs, seconds) = costs[-2:]
        return (
            runs * runs / runs_before <= effort.ENGINE_MORE_RUNS
            and seconds * seconds / seconds_before <= self.budget - self.seconds
        )

    def _timed(self, find: Callable[..., "TracedLaw"]) -> "TracedLaw":
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
class TracedLaw:
    """The exact law of what an engine returned; ``runs`` of it, and what was seen of its drafts.

    ``keeps_state``: generations change those that follow, so that each of these was a fresh copy's first.
    """

    law: Mapping[Any, float]
    runs: int
    speculation: Speculation
    keeps_state: bool = False


def traced_completions(
    code: EngineCode, prompt: Ids, tokens: int, most_runs: int, method: str = "generate"
) -> TracedLaw:
    """Return the exact law of one generation's completion; errors as of `traced`."""
    return traced(
        code,
        lambda engine: as_list(getattr(engine, method)(list(prompt), tokens)),
        lambda returned: code.checked(returned, tokens, method),
        most_runs,
    )


def traced(
    code: EngineCode,
    call: Callable[[Any], Any],
    label: Callable[[Any], Label],
    most_runs: int,
    *,
    fresh: bool = False,
) -> TracedLaw:
    """Return the law of ``label(call(engine))``; of fresh copies if generations change those that follow.

    Raises `NoEvidenceError` where the law would not be exact, or the engine raises while it is traced;
    `ContractError` for what cannot be a completion.
    """
    try:
        try:
            return _traced(code, call, label, most_runs, fresh=fresh)
        except UnrepeatableError:
            if code.unused is None or fresh:
                raise
        return replace(_traced(code, call, label, most_runs, fresh=True), keeps_state=True)
    except (SubjectRaisedError, NotTracedError) as error:
        raised = "with traced ones it " * isinstance(error, SubjectRaisedError)
        why = f"could not trace the random numbers: {raised}{error}; sampled instead"
        raise NoEvidenceError(why) from None


def _traced(
    code: EngineCode,
    call: Callable[[Any], Any],
    label: Callable[[Any], Label],
    most_runs: int,
    *,
    fresh: bool,
) -> TracedLaw:
    def run() -> tuple[Any, Speculation]:
        engine = copy_of(code.unused) if fresh else code.engine
        with speculation_seen(engine) as seen:
            returned = call(engine)
        return returned, seen()

    with raising():
        branches = enumerate_calls(run, max_branches=most_runs, leave_open=True)
    found = [(mass, *result) for branch in branches for mass, result in outcomes(branch)]
    law = summed((label(returned), mass) for mass, returned, _ in found)
    return TracedLaw(law, len(branches), reduce(or_, (seen for *_, seen in found)))


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


def _judged_and_confirmed(
    found: Sequence[Compared], facts: Facts, context: Context, tracer: Tracer
) -> CheckResult:
    result, off = judged(found, facts.tolerance), None
    if result.status is Status.FAILED:
        worst = max(found, key=_off_a_token)
        gap = completion_gap(worst.traced.law, worst.expected)
        off = WrongCompletion(worst.case.name, worst.case.prompt, worst.tokens, gap, worst.total_variation)
    lengths = sorted({compared.tokens for compared in found})
    cases = list(dict.fromkeys(compared.case for compared in found))
    longest = {c.case: c for c in sorted(found, key=lambda c: c.tokens) if not c.is_pair}
    laws = [(case, compared.tokens, dict(compared.traced.law)) for case, compared in longest.items()]
    rng = streams.stream(context.seed, "engine/confirmed")
    scope = scope_of(cases, lengths, f"traced in {tracer.runs:,} runs"), confirmed(laws, context, rng)
    return replace(
        result,
        scope=scope,
        shown=off,
        findings=Findings(
            total_variation=max(compared.total_variation for compared in found),
            smallest_detectable_tv=lengths[-1] * facts.tolerance,
            is_reference_wrong=any(c.rows_off > c.tokens * facts.tolerance for c in found),
        ),
    )


def judged(found: Sequence[Compared], tolerance: float) -> CheckResult:
    """Say whether all laws are those of target-only decoding, up to rounding by ``tolerance`` a token."""
    worst = max(found, key=_off_a_token)
    wrong = max(found, key=lambda compared: compared.rows_off / compared.tokens)
    gap = max(compared.total_variation for compared in found)
    rounding = " (float32 rounding)" if gap > ROUNDING else ""
    most = _tokens(max(compared.tokens for compared in found))
    detail = f"{len(found)} distributions of up to {most}: off by {gap:.1e} at most{rounding}"
    status = Status.PASSED
    if worst.total_variation > worst.tokens * tolerance:
        status, detail, gap = Status.FAILED, _failure(worst), worst.total_variation
    elif wrong.is_off(tolerance):
        status = Status.INCONCLUSIVE
        detail = (
            f"{wrong.case.label}: generate and generate_plain agree, next_token_probs differs; correct it "
            f"(total variation {wrong.rows_off:.3g} of {_tokens(wrong.tokens)})"
        )
    return CheckResult("", status, detail, total_variation=gap, how=How.PROVEN)


def _off_a_token(compared: Compared) -> float:
    """Return the distance from target-only decoding, measured by the rounding that is allowed."""
    return compared.total_variation / compared.tokens


def _failure(worst: Compared) -> str:
    gap = completion_gap(worst.traced.law, worst.expected)
    kept = "; a generation changes the next ones" if worst.traced.keeps_state or worst.is_pair else ""
    wrong = "; next_token_probs differs from generate_plain too" if worst.rows_off > ROUNDING * 1e6 else ""
    return (
        f"{worst.case.label}: completion {shown(gap.sequence)} has probability {gap.actual:.4g}, target-only "
        f"decoding gives it {gap.expected:.4g} (total variation {worst.total_variation:.3g} of "
        f"{_tokens(worst.tokens)}){kept}{wrong}"
    )


def _tokens(count: int) -> str:
    return f"{count} token{'s' * (count != 1)}"
