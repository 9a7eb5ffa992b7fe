"""The check `joint`: the first tokens that an engine generates are distributed as by target-only decoding.

Completions of two tokens hold what one call can do wrong: an accepted draft, a correction, a bonus token.
They are judged after every prompt, of requests without seed and with one.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.requests import Requests, sampled_instead, tokens_of_a_call
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.tracer import EngineRequest
from spec_oracle.audit.experiment import Experiment, Ledger, TracedExperiment, find
from spec_oracle.audit.results import Cause, CheckResult, Findings, LawResult, Status
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import is_ended
from spec_oracle.statistics import split

# Share of the budget for samples without speculation: they only show whose fault a defect is.
PLAIN_SHARE: Final = 0.25
# Of these, completions that are looked at for what comes behind their end.
PLAIN_LOOKS: Final = 100
# How much longer a generation takes when its random numbers are traced: a first guess.
TRACING = 5.0


@dataclass(frozen=True)
class TracedFindings(Findings):
    """Findings of `joint`, with what it traced, so that `calls` need not trace it again."""

    traced: tuple[TracedExperiment, ...] = ()


def joint(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge the first tokens after every prompt."""
    seed_all(context.seed)
    cases, plain = subject.cases(context), subject.cases(context, "generate_plain")
    seconds = min(case.code.trial(case.prompt, effort.ENGINE_LEAST_TOKENS) for case in cases)
    requests = Requests(subject, context, "joint")
    listing, sizes = partial(first_tokens, requests, cases), requests.effort(cases)
    instead = sampled_instead(requests, cases, partial(tokens_of_a_call, context))
    ledger, rate = Ledger(context.budget, TRACING * seconds), split(context.rate, 1 + bool(plain))
    own, doubt = replace(context, rate=rate), requests.rounding.doubt
    result = find(listing, own, sizes, instead=instead, ledger=ledger, doubt=doubt)
    findings = TracedFindings(**{**vars(result.findings), "traced": tuple(ledger.found), "worst": None})
    result = replace(result, findings=findings)
    if plain:
        result = beside_plain(result, requests, plain, effort.ENGINE_FIRST_TOKENS, rate)
    seen = [case.code.drafts.seen for case in cases]
    return requests.noted(result, [note for one in seen if one.is_known for note in one.notes])


def beside_plain(
    result: LawResult, requests: Requests, cases: Sequence[Case], tokens: int, rate: float
) -> LawResult:
    """Say whose mistake it is if completions without speculation differ from the rows.

    What ``generate_plain`` generates is target-only decoding. Rows of another distribution are a mistake of
    ``next_token_probs``; an engine that agrees with them is wrong.
    """
    sizes = requests.in_addition(PLAIN_SHARE)
    asked = {one: [[EngineRequest(one.prompt, tokens)]] for one in cases}
    plain = [requests.calls(one, some, method="generate_plain") for one, some in asked.items()]
    rows = find(plain, replace(requests.context, rate=rate), sizes, doubt=requests.rounding.doubt)
    if rows.how is None or rows.cause is Cause.BROKEN_CONTRACT:
        return result if result.status is Status.FAILED else replace(rows, findings=result.findings)
    is_wrong = rows.status is Status.FAILED
    if not is_wrong and rows.cause is None:
        return result
    if is_wrong and result.status is Status.PASSED and (late := _beyond_its_end(cases, plain)):
        detail = f"generate_plain returned {late}, beyond its end; it must end where generate does"
        return replace(result, status=Status.FAILED, detail=detail, cause=Cause.BROKEN_CONTRACT)
    tv = rows.findings.total_variation
    measured = replace(result.measured, total_variation=tv)
    findings = replace(result.findings, total_variation=tv, is_reference_wrong=True)
    result = replace(result, measured=measured, findings=findings)
    if is_wrong and result.status is Status.PASSED:
        detail = f"generate agrees with next_token_probs, not with generate_plain; {rows.detail}"
        return replace(result, status=Status.FAILED, detail=detail)
    who = "next_token_probs differs from generate_plain" + "; correct it" * is_wrong
    detail = f"{who}; {rows.detail}"
    return replace(result, status=Status.INCONCLUSIVE, detail=detail, cause=Cause.UNDECIDED)


def _beyond_its_end(cases: Sequence[Case], plain: Sequence[Experiment]) -> list[int]:
    """Return a completion that goes on behind a stop token or sequence, [] where none of a few does."""
    for case, one in zip(cases, plain, strict=True):
        for completion in one.many(PLAIN_LOOKS):
            if any(is_ended(completion[:end], case.code.endings) for end in range(1, len(completion))):
                return [*completion]
    return []


def first_tokens(requests: Requests, cases: Sequence[Case], ledger: Ledger) -> Iterator[Experiment]:
    """Yield completions of one and two tokens, of three if drafts show only there; then seeded ones."""
    most = requests.context.inputs.tokens or effort.ENGINE_LEAST_TOKENS
    usual = min(most, effort.ENGINE_FIRST_TOKENS)
    sizes, seeded = range(1, usual + 1), [case for case in cases if case.code.takes_seeds]
    for some in (sizes, range(usual + 1, most + 1)):
        if some is sizes or (ledger.found and requests.subject.drafts.never):
            pairs = itertools.product(some, cases)
            yield from [requests.completion(case, size, decides=size >= usual) for size, case in pairs]
    yield from [
        requests.completion(case, tokens, seeded=True, decides=tokens == usual)
        for tokens in sizes
        for case in seeded
    ]
