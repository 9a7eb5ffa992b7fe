"""A further turn of a conversation: its prompt is the first one, the own completion, and a new token.

Engines keep what they computed of a conversation (prefix caches), and a token that ends a turn is easily lost
from it. What a turn begins with must not change it: the turn is held against the same request to a copy of
the engine that has generated nothing. Rows do not matter, since what is generated after such a prompt may
depend on where the prompt ends. Turns that cannot be traced are not judged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import first_failure
from spec_oracle.audit.engine.requests import Requests, counted, shown, with_remarks_of
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import Asked, completions_of, traced
from spec_oracle.audit.experiment import Experiment, FoundBy, Ledger, TracedOutcome
from spec_oracle.audit.results import CheckResult, passed
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import EngineCode, as_list
from spec_oracle.exact.completions import Ids, is_ended, summed

ENGINE_TURNS_SHARE: Final = 0.1  # Share of the budget for further turns.
# Tokens of a first turn, at most, and completions of it: more of them where none ends earlier.
ENGINE_TURN_TOKENS: Final = 32
ENGINE_TURN_COMPLETIONS: Final = 30

TOKENS = effort.ENGINE_FIRST_TOKENS


def further_turns(requests: Requests, cases: Sequence[Case], rate: float) -> CheckResult:
    """Judge a second turn after the first prompt of each engine; a note says why there was none."""
    firsts = {case.name: case for case in reversed(cases)}.values()
    budget, found = requests.context.budget / len(firsts), list[CheckResult]()

    def judged(case: Case, rate: float) -> CheckResult:
        found.append(_turn(requests, case, budget, rate))
        return found[-1]

    return with_remarks_of(first_failure(rate, *(partial(judged, case) for case in firsts)), found)


def _turn(requests: Requests, case: Case, budget: float, rate: float) -> CheckResult:
    asked, most = _asked(requests, case)
    try:
        with raising():
            asked.call(case.code.engine, lambda: 0)
    except SubjectRaisedError as error:
        return _none(str(error))
    turn = _experiment(requests, case, asked, most)
    context = replace(requests.context, rate=rate, budget=budget)
    ledger = Ledger(ENGINE_TURNS_SHARE * budget)
    found = requests.find([turn], context, requests.effort([case]), ledger=ledger, ways=FoundBy.TRACED)
    return found if found.how else _none(found.detail.removesuffix("; sampled instead"))


def _none(why: str) -> CheckResult:
    return passed("", notes=(f"calls: no second turn of a conversation: {why}",))


def _first_tokens(case: Case) -> int:
    """Return the tokens of the first turn: as many as it takes until one may end, if these can be listed."""
    code, most = case.code, TOKENS
    while code.endings and code.vocab_size <= ENGINE_TURN_COMPLETIONS and most < ENGINE_TURN_TOKENS:
        law = code.law(case.prompt, most)
        if len(law) > ENGINE_TURN_COMPLETIONS or any(is_ended(one, code.endings) for one in law):
            break
        most += 1
    return most


def _after(case: Case, first: Sequence[int]) -> Ids:
    """Return the prompt of the second turn: its last token is one that ends nothing."""
    tokens = (*case.prompt[::-1], *range(case.code.vocab_size))
    news = next((one for one in tokens if not is_ended((one,), case.code.endings)), tokens[0])
    return (*case.prompt, *first, news)


def _asked(requests: Requests, case: Case) -> tuple[Asked, int]:
    """Return what asks for both turns, and the tokens of the first one."""
    code, most = case.code, _first_tokens(case)

    def both(engine: Any, _: Callable[[], int]) -> list[list[Any]]:
        first = as_list(engine.generate([*case.prompt], most))
        return [first, as_list(engine.generate([*_after(case, tuple(map(int, first)))], TOKENS))]

    def checked(found: list[list[Any]]) -> tuple[Ids, ...]:
        first, second = found
        return code.checked(first, most), code.checked(second, TOKENS)

    return Asked(code, both, checked, requests.rng, fresh=code.unused is not None), most


def _experiment(requests: Requests, case: Case, asked: Asked, most: int) -> Experiment:
    """Return the experiment of both turns, whose second one must be as if the first had not been."""
    expected: dict[tuple[Ids, ...], float] = {}

    def trace(most_runs: int, end: float) -> TracedOutcome:
        alone = partial(_alone, case.code, most_runs, end)
        expected.update(
            summed(
                ((first, second), mass * chance)
                for first, mass in alone(case.prompt, most).items()
                for second, chance in alone(_after(case, first), TOKENS).items()
            )
        )
        return replace(traced(asked, most_runs, end), many=None)

    tokens = most + TOKENS
    return Experiment(
        f"{case.label}, the next turn of its conversation",
        counted(tokens, "token"),
        lambda: expected,
        replace(asked, fresh=False).many,
        trace,
        allowed=2 * tokens * requests.rounding.a_token,
        doubtful=2 * tokens * requests.rounding.unsure,
        shown=lambda one: f"completion {shown(one)}",
        tokens=most,
    )


def _alone(code: EngineCode, most_runs: int, end: float, prompt: Ids, tokens: int) -> Mapping[Ids, float]:
    """Return the distribution of a copy's only completion."""
    asked = replace(completions_of(code, prompt, tokens), fresh=code.unused is not None)
    return traced(asked, most_runs, end).law
