"""The check `joint`: the first tokens that an engine generates are distributed as by target-only decoding.

Completions of two tokens hold what one call can do wrong: an accepted draft, a correction, a bonus token.
They are judged after every prompt, of requests without seed and with one.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.experiment import Experiment, Ledger, TracedExperiment, find
from spec_oracle.audit.results import CheckResult, Findings, remarked
from spec_oracle.contracts import raising

# How much longer a generation takes when its random numbers are traced: a first guess.
TRACING = 5.0


@dataclass(frozen=True)
class TracedFindings(Findings):
    """What `joint` found of an engine by tracing: `calls` does not trace it again."""

    traced: tuple[TracedExperiment, ...] = ()


def joint(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge the first tokens after every prompt."""
    requests, cases = Requests(subject, context, "joint"), subject.cases(context)
    seconds = min(case.code.trial(case.prompt, effort.ENGINE_LEAST_TOKENS) for case in cases)
    ledger = Ledger(context.budget, TRACING * seconds)
    result = find(
        partial(first_tokens, requests, cases),
        context,
        requests.effort(cases),
        instead=sampled_instead(requests, cases, partial(_of_a_call, context)),
        ledger=ledger,
        doubt=requests.rounding.doubt,
    )
    findings = TracedFindings(**{**vars(result.findings), "traced": tuple(ledger.found), "worst": None})
    seen = [case.code.drafts.seen for case in cases]
    notes = dict.fromkeys(note for one in seen if one.is_known for note in one.notes)
    result = remarked(result, notes=(*result.remarks.notes, *notes))
    return requests.noted(replace(result, findings=findings))


def first_tokens(requests: Requests, cases: Sequence[Case], ledger: Ledger) -> Iterator[Experiment]:
    """Yield completions of one and two tokens, of three where only that shows what drafts do; then seeded."""
    most = requests.context.inputs.tokens or effort.ENGINE_LEAST_TOKENS
    usual = min(most, effort.ENGINE_FIRST_TOKENS)
    sizes, seeded = range(1, usual + 1), [case for case in cases if case.code.takes_seeds]
    for some in (sizes, range(usual + 1, most + 1)):
        if some is sizes or (ledger.found and requests.subject.drafts.never):
            pairs = [(case, tokens) for tokens in some for case in cases]
            both = [completions(requests, *one, ledger, decides=one[1] >= usual) for one in pairs]
            yield from itertools.chain.from_iterable(both)
    yield from [
        requests.completion(case, tokens, seeded=True, decides=tokens == usual)
        for tokens in sizes
        for case in seeded
    ]


def completions(
    requests: Requests, case: Case, tokens: int, ledger: Ledger, *, decides: bool = True
) -> list[Experiment]:
    """Return completions of a request without seed, after those without speculation where an engine has such.

    What that generates is target-only decoding then, and rows that differ from it are a mistake.
    """
    if not case.code.has("generate_plain"):
        return [requests.completion(case, tokens, decides=decides)]
    plain = replace(requests.plain(case, tokens), decides=decides)
    expect = partial(ledger.law_beside, plain)
    return [plain, requests.completion(case, tokens, decides=decides, reference=plain, expect=expect)]


def sampled_instead(
    requests: Requests, cases: Sequence[Case], tokens: Callable[[Case], int]
) -> list[Experiment]:
    """Return what is sampled where tracing does not work: completions of so many tokens, with seeds, too."""
    plain = [one for case in cases for one in completions(requests, case, tokens(case), Ledger(0.0))]
    seeded = [case for case in cases if case.code.takes_seeds]
    return [*plain, *(requests.completion(case, tokens(case), seeded=True) for case in seeded)]


def _of_a_call(context: Context, case: Case) -> int:
    """Return the tokens of a whole call of an engine that decodes many requests at once, a few of others."""
    if not case.code.has("start_many"):
        return min(context.inputs.tokens or effort.ENGINE_LEAST_TOKENS, effort.ENGINE_FIRST_TOKENS)
    with raising():
        whole = int(case.code.engine.draft_length) + 1
    return min(context.inputs.tokens or whole, whole)
