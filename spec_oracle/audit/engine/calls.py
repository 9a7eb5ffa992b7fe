"""The check `calls`: completions of several calls are distributed as by target-only decoding.

No call remembers or repeats another one: what a generation leaves behind for the next one is judged too, with
seeds and without, and, of engines that decode many requests at once, whether batches or calls share their
random numbers. Completions grow longer while the budget allows it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.dependence import CHAINS, Draw, in_turn, independent
from spec_oracle.audit.engine.joint import TRACING, TracedFindings, beside_plain
from spec_oracle.audit.engine.patterns import after_patterns
from spec_oracle.audit.engine.requests import Requests, counted, sampled_instead, with_remarks_of
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.tracer import EngineRequest
from spec_oracle.audit.engine.turns import further_turns
from spec_oracle.audit.experiment import Experiment, Ledger, TracedExperiment, find, first_failure
from spec_oracle.audit.results import CheckResult, LawResult, Status
from spec_oracle.contracts import raising
from spec_oracle.contracts.sampler import seed_all

# Share of the budget for completions that are traced and, in what is left of it, for the calls after every
# pattern of acceptance.
ENGINE_CALLS_SHARE: Final = 0.7
# Share that is kept for these calls, whatever the completions took.
ENGINE_PATTERNS_SHARE: Final = 0.2
ENGINE_REST_SHARE: Final = 0.2  # Share for samples of what cannot be traced of a traced engine.
ENGINE_MOST_TOKENS: Final = 8  # Tokens that it traces at most.
# Runs that one more token may take, in all, where nobody asked for that token.
ENGINE_MORE_RUNS: Final = 1500


def calls(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge completions of several calls, traced or sampled, and series of batches.

    Of engines that show their calls, the next call is judged after every pattern of accepted lengths.
    """
    requests, cases = Requests(subject, context, "calls"), subject.cases(context)
    many = subject.cases(context, "start_many")[:1]
    chains = [partial(independent, equal_batches(one, context), CHAINS) for one in many]
    return first_failure(context.rate, *chains, partial(_longer, requests, cases))


def _longer(requests: Requests, cases: Sequence[Case], rate: float) -> CheckResult:
    """Judge longer completions, texts that go on, and calls after every pattern of acceptance."""
    subject, context, ends = requests.subject, requests.context, ENGINE_CALLS_SHARE * requests.context.budget
    showing, started = subject.cases(context, "steps"), time.process_time()
    reserved = ENGINE_PATTERNS_SHARE * context.budget if showing else 0.0

    def patterns(rate: float) -> CheckResult:
        return after_patterns(requests, showing, rate, max(ends - (time.process_time() - started), reserved))

    parts: list[Callable[[float], CheckResult]] = [
        partial(_completions, requests, cases, context.budget - reserved),
        partial(further_turns, requests, cases),
        *([patterns] if showing and not context.is_lossy(subject) else []),
    ]
    found: list[CheckResult] = []
    for part in parts:
        found.append(part(rate / len(parts)))
        if found[-1].status is Status.FAILED:
            break
    is_run = not showing or (part is patterns)
    chosen = next((one for status in _WORST for one in found if one.status is status), found[0])
    missing = () if is_run else ("the call after every pattern of acceptance was not run after a failure",)
    return with_remarks_of(chosen, found, missing)


_WORST: Final = (Status.FAILED, Status.INCONCLUSIVE)


def _completions(requests: Requests, cases: Sequence[Case], budget: float, rate: float) -> LawResult:
    context = replace(requests.context, rate=rate, budget=budget)
    seconds = min(case.code.trial(case.prompt, effort.ENGINE_LEAST_TOKENS) for case in cases)
    ledger, before = Ledger(context.budget, TRACING * seconds), context.findings
    tokens = context.inputs.tokens or effort.ENGINE_SAMPLED_TOKENS
    if isinstance(before, TracedFindings):  # the first tokens are not traced again
        ledger.found += [one for one in before.traced if one.experiment.size != counted(1, "token")]
    rest, doubt = requests.in_addition(ENGINE_REST_SHARE), requests.rounding.doubt
    instead = sampled_instead(requests, cases, lambda _: tokens)
    listing, sizes = partial(longer, requests, cases), requests.effort(cases)
    found = find(listing, context, sizes, rest=rest, instead=instead, ledger=ledger, doubt=doubt)
    plain = requests.subject.cases(context, "generate_plain")
    if found.status is Status.FAILED and plain:
        found = beside_plain(found, requests, plain, found.measured.tokens, rate)
    return requests.noted(found)


def longer(requests: Requests, cases: Sequence[Case], ledger: Ledger) -> Iterator[Experiment]:
    """Yield longer completions, seeded ones, generations in a row, and more tokens while they are cheap.

    Of engines with several draft lengths completions are long enough for each of them.
    """
    traced, costs = [*ledger.found], list[tuple[int, float]]()
    seeded = [case for case in cases if case.code.takes_seeds]
    asked_for, rows = requests.context.inputs.tokens, in_a_row(requests, cases)
    for tokens in range(effort.ENGINE_FIRST_TOKENS, (asked_for or ENGINE_MOST_TOKENS) + 1):
        size = counted(tokens, "token")
        known = [one for one in traced if one.experiment.size == size and not one.experiment.group]
        if known and tokens < effort.ENGINE_LEAST_TOKENS:
            costs.append(_cost(known))
            continue
        wanted = [
            case for case in cases if tokens <= max(effort.ENGINE_LEAST_TOKENS, case.code.chosen_length + 1)
        ]
        if asked_for is not None or (len(costs) > 1 and _is_cheap(costs, ledger)):
            wanted = list(cases)
        if not wanted:
            break
        start = len(ledger.found)
        if len(known) < len(wanted):  # `joint` may have run out of time among them
            yield from [requests.completion(case, tokens) for case in wanted]
        costs.append(_cost(ledger.found[start:] or known))
        if tokens >= effort.ENGINE_LEAST_TOKENS:
            yield from (requests.completion(case, tokens, seeded=True) for case in seeded if case in wanted)
        yield from rows
    yield from rows


def in_a_row(requests: Requests, cases: Sequence[Case]) -> Iterator[Experiment]:
    """Yield two generations of a fresh engine, the second one with a seed, too, and the fourth one."""
    for name in dict.fromkeys(case.name for case in cases):
        own = [case for case in cases if case.name == name]
        case, first = own[0], EngineRequest(own[0].prompt, effort.ENGINE_FIRST_TOKENS)
        then = EngineRequest(own[-1].prompt, 1)
        yield requests.calls(case, [[first], [then]], group="two requests in a row")
        short = first._replace(tokens=1)
        if case.code.takes_seeds:
            both = [[first._replace(seeded=True)], [then._replace(seeded=True, tokens=first.tokens)]]
            yield requests.calls(case, both, group="seeded requests in a row")
        yield requests.calls(case, [[short], [short], [short], [then]], group="four requests in a row")


def _cost(found: Sequence[TracedExperiment]) -> tuple[int, float]:
    return sum(one.traced.runs for one in found), sum(one.seconds for one in found)


def _is_cheap(costs: Sequence[tuple[int, float]], ledger: Ledger) -> bool:
    """Whether one more token is cheap: costs grow by a factor with each, at most by the last one."""
    (runs_before, seconds_before), (runs, seconds) = costs[-2:]
    return (
        runs * runs <= ENGINE_MORE_RUNS * runs_before
        and seconds * seconds <= (ledger.budget - ledger.seconds) * seconds_before
    )


def equal_batches(case: Case, context: Context) -> Draw:
    """Return the function that samples first calls of a batch of equal requests without seed."""
    seed_all(context.seed)

    def emitted(size: int) -> Integers:
        with raising():
            width = int(case.code.engine.draft_length) + 1
            step = case.code.session(case.prompt, 2 * width, [None] * size).step()
            return np.array(step.tokens, np.int64)

    return in_turn(emitted)
