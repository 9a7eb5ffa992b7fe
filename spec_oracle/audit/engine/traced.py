"""Exact distributions of completions after every prompt, of requests with and without seed, confirmed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.exact_comparison import CompletionLaws, Tracer, is_wrong
from spec_oracle.audit.engine.judged import TracedFindings, judged_and_confirmed
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.audit.engine.sampled import sampled_with_seeds
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.results import LawResult, NoEvidenceError, Status, remarked
from spec_oracle.contracts.speculation import Speculation

ENGINE_MOST_TOKENS: Final = 8  # Tokens that it traces at most.
# How much longer a generation takes when its random numbers are traced: a first guess.
ENGINE_TRACING: Final = 5.0


def traced_first_tokens(
    cases: Sequence[Case], rounding: Rounding, context: Context, seconds: float
) -> LawResult:
    """Find the laws of the first tokens after every prompt, without seeds and with one.

    Completions are one token longer where only that shows what drafts do. A generation takes ``seconds``
    without instruments. Where only seeded requests cannot be traced, they are sampled. Raises
    `NoEvidenceError` where a law would not be exact, or samples contradict it.
    """
    tracer = Tracer(context.budget, ENGINE_TRACING * seconds)
    found, seen, most = (
        list[CompletionLaws](),
        Speculation(),
        context.inputs.tokens or effort.ENGINE_LEAST_TOKENS,
    )
    for tokens in range(1, most + 1):
        if tokens > effort.ENGINE_FIRST_TOKENS and not seen.told()[0]:
            break
        found += [tracer.compared(case, tokens) for case in cases]
        for compared in found:
            seen |= compared.traced.speculation
        if is_wrong(found, rounding):
            break
    unseeded, why_not = len(found), ""
    takers = [] if is_wrong(found, rounding) else [case for case in cases if case.code.takes_seeds]
    try:
        for tokens in range(1, min(most, effort.ENGINE_FIRST_TOKENS) + 1):
            found += [
                tracer.seeded(compared)
                for compared in found[:unseeded]
                if compared.tokens == tokens and compared.case in takers
            ]
    except NoEvidenceError as error:
        found, why_not = found[:unseeded], f"requests with seeds: {error}"
    result = judged_and_confirmed(found, rounding, context, tracer)
    never, notes = seen.told()
    if result.status is Status.PASSED and never:
        result = replace(result, status=Status.INCONCLUSIVE, detail=never)
    result = replace(result, remarks=replace(result.remarks, notes=(*result.remarks.notes, *notes)))
    return _with_sampled_seeds(result, why_not, takers, context) if why_not else result


def _with_sampled_seeds(
    result: LawResult, why_not: str, cases: Sequence[Case], context: Context
) -> LawResult:
    """Judge seeded requests by samples, where the others were traced and found right."""
    if result.status is not Status.PASSED:
        return result
    by_samples = sampled_with_seeds(cases, context)
    notes = (why_not, *result.remarks.notes)
    if by_samples.status is Status.FAILED:
        return remarked(by_samples, notes=notes)
    detectable = by_samples.findings.smallest_detectable_tv
    return replace(
        remarked(by_samples, scope=(*result.remarks.scope, *by_samples.remarks.scope), notes=notes),
        detail=f"{result.detail}; requests with seeds: {by_samples.detail}",
        findings=replace(result.findings, smallest_detectable_tv=detectable),
    )


def traced_longer(cases: Sequence[Case], rounding: Rounding, context: Context, seconds: float) -> LawResult:
    """Find the laws of longer completions, and of two generations in a row; errors as above.

    What `joint` traced of the first tokens is not traced again. Of engines with several draft lengths
    completions are long enough for each of them.
    """
    tracer = Tracer(context.budget, ENGINE_TRACING * seconds)
    before = context.findings
    found = [
        one
        for one in (before.traced if isinstance(before, TracedFindings) else ())
        if one.tokens == effort.ENGINE_FIRST_TOKENS and one.case in cases
    ]
    costs = [(sum(one.cost[0] for one in found), sum(one.cost[1] for one in found))] if found else []
    for tokens in range(
        effort.ENGINE_FIRST_TOKENS + bool(found), (context.inputs.tokens or ENGINE_MOST_TOKENS) + 1
    ):
        wanted = [
            case for case in cases if tokens <= max(effort.ENGINE_LEAST_TOKENS, case.code.chosen_length + 1)
        ]
        if context.inputs.tokens is not None or (len(costs) > 1 and tracer.can_afford_another(costs)):
            wanted = list(cases)
        if not wanted:
            break
        runs, seconds = tracer.runs, tracer.seconds
        found += [tracer.compared(case, tokens) for case in wanted]
        costs.append((tracer.runs - runs, tracer.seconds - seconds))
        if is_wrong(found, rounding):
            return judged_and_confirmed(found, rounding, context, tracer)
    for name in dict.fromkeys(case.name for case in cases):
        own = [case for case in cases if case.name == name]
        found.append(tracer.pair(own[0], own[-1].prompt))
    return judged_and_confirmed(found, rounding, context, tracer)
