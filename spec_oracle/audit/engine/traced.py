"""Exact distributions of completions after every prompt, of requests with and without seed, confirmed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.claimed import confirmed_claim
from spec_oracle.audit.engine.laws import Asked, Compared, TracedLaw, completions_of, judged, traced, worst_of
from spec_oracle.audit.engine.sampled import confirmed, sampled_with_seeds, scope_of
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import CheckResult, Findings, NoEvidenceError, Status, WrongCompletion
from spec_oracle.contracts.engine import Speculation, as_list
from spec_oracle.exact.completions import Ids, completion_gap, product


def traced_first_tokens(cases: Sequence[Case], facts: Facts, context: Context, seconds: float) -> CheckResult:
    """Find the laws of the first tokens after every prompt, without seeds and with one.

    Completions are one token longer where only that shows what drafts do. A generation takes ``seconds``
    without instruments. Where only seeded requests cannot be traced, they are sampled. Raises
    `NoEvidenceError` where a law would not be exact, or samples contradict it.
    """
    tracer = Tracer(context.budget, effort.ENGINE_TRACING * seconds)
    found, seen, most = list[Compared](), Speculation(), context.tokens or effort.ENGINE_LEAST_TOKENS
    for tokens in range(1, most + 1):
        if tokens > effort.ENGINE_FIRST_TOKENS and not seen.missing:
            break
        found += [tracer.compared(case, tokens) for case in cases]
        for compared in found:
            seen |= compared.traced.speculation
        if any(compared.is_off(facts.tolerance) for compared in found):
            break
    unseeded, why_not = len(found), ""
    is_off = any(compared.is_off(facts.tolerance) for compared in found)
    takers = [] if is_off else [case for case in cases if case.code.takes_seeds]
    try:
        for tokens in range(1, min(most, effort.ENGINE_FIRST_TOKENS) + 1):
            found += [
                tracer.seeded(compared)
                for compared in found[:unseeded]
                if compared.tokens == tokens and compared.case in takers
            ]
    except NoEvidenceError as error:
        found, why_not = found[:unseeded], f"requests with seeds: {error}"
    result = _judged_and_confirmed(found, facts, context, tracer)
    if result.status is Status.PASSED and seen.missing:
        result = replace(result, status=Status.INCONCLUSIVE, detail=seen.missing)
    result = replace(result, notes=(*result.notes, *seen.notes))
    return _with_sampled_seeds(result, why_not, takers, context) if why_not else result


def _with_sampled_seeds(
    result: CheckResult, why_not: str, cases: Sequence[Case], context: Context
) -> CheckResult:
    """Judge seeded requests by samples, where the others were traced and found right."""
    if result.status is not Status.PASSED:
        return result
    by_samples = sampled_with_seeds(cases, context)
    found, finds = result.findings, by_samples.findings
    if by_samples.status is Status.FAILED or found is None or finds is None:
        return replace(by_samples, notes=(why_not, *result.notes))
    return replace(
        by_samples,
        detail=f"{result.detail}; requests with seeds: {by_samples.detail}",
        scope=(*result.scope, *by_samples.scope),
        notes=(why_not, *result.notes),
        findings=replace(found, smallest_detectable_tv=finds.smallest_detectable_tv),
    )


def traced_longer(cases: Sequence[Case], facts: Facts, context: Context, seconds: float) -> CheckResult:
    """Find the laws of longer completions, and of two generations in a row; errors as above.

    What `joint` traced of the first tokens is not traced again. Of engines with several draft lengths
    completions are long enough for each of them.
    """
    tracer = Tracer(context.budget, effort.ENGINE_TRACING * seconds)
    found = [
        one
        for one in context.findings.traced
        if one.tokens == effort.ENGINE_FIRST_TOKENS and one.case in cases
    ]
    costs = [(sum(one.cost[0] for one in found), sum(one.cost[1] for one in found))] if found else []
    for tokens in range(
        effort.ENGINE_FIRST_TOKENS + bool(found), (context.tokens or effort.ENGINE_MOST_TOKENS) + 1
    ):
        wanted = [
            case for case in cases if tokens <= max(effort.ENGINE_LEAST_TOKENS, case.code.chosen_length + 1)
        ]
        if context.tokens is not None or (len(costs) > 1 and tracer.can_afford_another(costs)):
            wanted = list(cases)
        if not wanted:
            break
        before = tracer.runs, tracer.seconds
        found += [tracer.compared(case, tokens) for case in wanted]
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

    def compared(self, case: Case, tokens: int) -> Compared:
        """Return the law of one generation's completions, beside that of target-only decoding."""
        before, plain = (self.runs, self.seconds), None
        found = self._timed(completions_of(case.code, case.prompt, tokens))
        if case.code.has("generate_plain"):
            plain = self._timed(completions_of(case.code, case.prompt, tokens, "generate_plain"))
        cost = self.runs - before[0], self.seconds - before[1]
        return Compared(case, tokens, found, case.code.law(case.prompt, tokens), plain, cost=cost)

    def seeded(self, without: Compared) -> Compared:
        """Return the law of the same completions of requests with a seed."""
        case, tokens = without.case, without.tokens
        found = self._timed(completions_of(case.code, case.prompt, tokens, seeded=True))
        return replace(without, traced=found, cost=(found.runs, 0.0))

    def pair(self, case: Case, then: Ids) -> Compared:
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
        return Compared(case, effort.ENGINE_FIRST_TOKENS + 1, found, expected, is_pair=True)

    def can_afford_another(self, costs: Sequence[tuple[int, float]]) -> bool:
        """Whether one more token is cheap: laws grow by a factor with each, at most by the last one."""
        (runs_before, seconds_before), (runs, seconds) = costs[-2:]
        return (
            runs * runs / runs_before <= effort.ENGINE_MORE_RUNS
            and seconds * seconds / seconds_before <= self.budget - self.seconds
        )

    def _timed(self, asked: Asked) -> TracedLaw:
        left = (self.budget - self.seconds) / self.a_run
        started = time.perf_counter()
        found = traced(asked, int(min(max(left, effort.ENGINE_LEAST_RUNS), effort.ENGINE_RUNS)))
        took = time.perf_counter() - started
        self.seconds += took
        self.runs += found.runs
        # Other work on the machine makes runs longer, never shorter.
        self.a_run = min(self.a_run, took / found.runs)
        return found


def _judged_and_confirmed(
    found: Sequence[Compared], facts: Facts, context: Context, tracer: Tracer
) -> CheckResult:
    result, off = judged(found, facts.tolerance), None
    worst = worst_of(found)
    if result.status is Status.FAILED:
        line = confirmed_claim(worst, context, facts.tolerance)
        gap = completion_gap(worst.traced.law, worst.expected)
        off = WrongCompletion(worst.case.name, worst.case.prompt, worst.tokens, gap, worst.total_variation)
    else:
        longest = {c.case: c for c in sorted(found, key=lambda c: c.tokens) if not c.is_pair}
        laws = [(case, compared.tokens, dict(compared.traced.law)) for case, compared in longest.items()]
        line = confirmed(laws, context, context.stream("engine/confirmed"))
    lengths = sorted({compared.tokens for compared in found})
    cases = list(dict.fromkeys(compared.case for compared in found))
    return replace(
        result,
        scope=(scope_of(cases, lengths, f"traced in {tracer.runs:,} runs"), line),
        shown=off,
        findings=Findings(
            total_variation=max(compared.total_variation for compared in found),
            smallest_detectable_tv=lengths[-1] * facts.tolerance,
            is_reference_wrong=any(c.rows_off > c.tokens * facts.tolerance for c in found),
            traced=tuple(found),
        ),
    )
