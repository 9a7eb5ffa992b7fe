"""Texts that go on: the second turn of a conversation, and a session that is appended to or cut.

Engines keep what they computed of a conversation (prefix caches), and a token that ends a turn is easily lost
from it. The prompt of the *second turn* is the first prompt, the own completion, and a new token. It is
compared with the same request to a copy of the engine that has generated nothing, and not with rows, since
what is generated after such a prompt may depend on where the prompt ends. Of an engine with ``steps`` the
first turn is also left in the middle, as by a client that disconnects: what a call has drafted may then stay
in what is kept.

An engine with ``append`` or ``rewind`` holds a *session*: its text is appended to or cut between two
generations, as a rule in the middle of a round whose last tokens nobody asked for yet. What it then goes on
with is compared with the rows after the resulting text. Where it has another distribution, it may still be
that of the resulting text as the prompt of an unused copy, since rows do not know where a reply begins.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import entropy_seen
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.requests import Requests, counted, shown, with_remarks_of
from spec_oracle.audit.engine.subject import Case, first_prompts
from spec_oracle.audit.engine.tracer import Asked, completions_of, traced
from spec_oracle.audit.experiment import Experiment, FoundBy, Ledger, TracedOutcome, find, first_failure
from spec_oracle.audit.results import CheckResult, How, NoEvidenceError, Status, passed, remarked
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import EngineCode, as_list
from spec_oracle.exact.completions import Ids, is_ended, summed
from spec_oracle.exact.errors import NotTracedError

ENGINE_TURNS_SHARE: Final = 0.1  # Share of the budget for texts that go on.
# Tokens of a first turn, at most, and completions of it: more of them where none ends earlier.
ENGINE_TURN_TOKENS: Final = 32
ENGINE_TURN_COMPLETIONS: Final = 30

TOKENS = effort.ENGINE_FIRST_TOKENS

_HIDDEN: Final = "calls: no second turn of a conversation: the random numbers of one call were not all traced"
"""What one call hides, a second turn may hide: what it is compared with is traced, too."""

EDITS: Final = (("append",), ("rewind",), ("rewind", "append"))
"""What is done to the text of a session: methods of the engine, in order."""


@dataclass(frozen=True)
class GoingOn:
    """A completion of ``first`` tokens, and one of ``then`` tokens of the text that goes on from it.

    ``edits`` are those of the session in between; without any the second turn is a request of its own.
    ``is_left``: the first one is a stream that nobody reads any further. ``is_request``: the text after the
    edits is the prompt of a request, and the session is left alone.
    """

    case: Case
    first: int
    then: int
    edits: Sequence[str] = ()
    is_left: bool = False
    is_request: bool = False

    @property
    def what(self) -> str:
        """Its name in messages."""
        second = "turn after a stream that was left" if self.is_left else "second turn of a conversation"
        return f"session after {' and '.join(self.edits)}" if self.edits else second

    def text(self, completion: Ids) -> Ids:
        """Return the text from which it goes on: a new token is one that ends nothing."""
        case = self.case
        kept = completion[:-1] if "rewind" in self.edits else completion
        if self.edits and "append" not in self.edits:
            return (*case.prompt, *kept)
        return (*case.prompt, *kept, new_token(case))

    def asked(self, rng: np.random.Generator) -> Asked:
        """Return the call for both completions."""
        code, prompt = self.case.code, self.case.prompt

        def both(engine: Any, _: Callable[[], int]) -> list[list[Any]]:
            first = self._first(engine)
            text = self.text(tuple(map(int, first)))
            edits = () if self.is_request else self.edits
            for edit in edits:
                if edit == "rewind":
                    engine.rewind(len(prompt) + len(first) - 1)
                else:
                    engine.append([text[-1]])
            return [first, as_list(engine.generate(None if edits else [*text], self.then))]

        def checked(found: list[list[Any]]) -> tuple[Ids, ...]:
            first, then = found
            return code.checked(first, self.first), code.checked(then, self.then)

        return Asked(code, both, checked, rng, fresh=code.unused is not None)

    def _first(self, engine: Any) -> list[Any]:
        """Return the first completion."""
        if not self.is_left:
            return as_list(engine.generate([*self.case.prompt], self.first))
        read = list[Any]()

        def ended(emitted: list[Any]) -> bool:
            read.extend(emitted)
            return len(read) >= self.first

        self.case.code.each_call(engine, self.case.prompt, ENGINE_TURN_TOKENS, ended)
        return read[: self.first]

    def law(self, alone: Callable[[Ids, int], Mapping[Ids, float]]) -> dict[tuple[Ids, ...], float]:
        """Return the distribution of both completions by that of each ``alone``, after a text."""
        return summed(
            ((first, then), mass * chance)
            for first, mass in alone(self.case.prompt, self.first).items()
            for then, chance in alone(self.text(first), self.then).items()
        )


def new_token(case: Case) -> int:
    """Return the token with which a user goes on: one of the prompt, or another one, that ends nothing."""
    tokens: Ids = (*case.prompt[::-1], *range(case.code.vocab_size))
    return next((one for one in tokens if not is_ended((one,), case.code.endings)), tokens[0])


def further_turns(requests: Requests, cases: Sequence[Case], rate: float) -> CheckResult:
    """Judge what goes on after the first prompt of each engine; notes say what could not be judged."""
    firsts, found, joint = first_prompts(cases), list[CheckResult](), requests.context.results.get("joint")
    is_hidden = joint is not None and joint.how is How.SAMPLED
    turns = [] if is_hidden else [made(case) for made in (_second_turn, _left_stream) for case in firsts]
    parts = [*filter(None, [*turns, *map(_sessions, firsts)])]
    budget = requests.context.budget / len(firsts)

    def judged(part: Sequence[GoingOn], rate: float) -> CheckResult:
        found.append(_judged(requests, part, budget, rate))
        return found[-1]

    judge = [partial(judged, part) for part in parts]
    result = with_remarks_of(first_failure(rate, *judge), found) if judge else passed("")
    return remarked(result, notes=(*result.remarks.notes, *([_HIDDEN] * is_hidden)))


def _judged(requests: Requests, part: Sequence[GoingOn], budget: float, rate: float) -> CheckResult:
    case, wanted, notes = part[0].case, list[GoingOn](), list[str]()
    for one in part:
        try:
            with raising():
                one.asked(requests.rng).call(case.code.engine, lambda: 0)
            wanted.append(one)
        except (SubjectRaisedError, NotTracedError) as error:
            notes.append(f"calls: no {one.what}: {error}")
    found = passed("")
    if wanted:
        context = replace(requests.context, rate=rate, budget=budget)
        asked, ledger = [_experiment(requests, one) for one in wanted], Ledger(ENGINE_TURNS_SHARE * budget)
        sizes, rest = requests.effort([case]), requests.in_addition(ENGINE_TURNS_SHARE)
        ways, doubt = FoundBy.TRACED, requests.rounding.doubt
        found = find(asked, context, sizes, rest=rest, ledger=ledger, ways=ways, doubt=doubt)
        if not found.how:
            notes.append(f"calls: no {wanted[0].what}: {found.detail.removesuffix('; sampled instead')}")
            found = passed("")
        if (
            found.status is Status.FAILED
            and found.how is How.SAMPLED
            and _are_rows_wrong(requests, wanted, context)
        ):
            notes.append(f"calls: {found.detail}; so do requests with the same text as their prompt")
            found = passed("")
    return remarked(found, notes=(*dict.fromkeys(notes), *found.remarks.notes))


def _are_rows_wrong(requests: Requests, wanted: Sequence[GoingOn], context: Context) -> bool:
    """Whether requests with the text of a session as their prompt contradict the rows, too.

    Rows do not know where a reply begins; samples are compared with nothing else.
    """
    asked = [_experiment(requests, replace(one, is_request=True)) for one in wanted if one.edits]
    sizes = requests.in_addition(ENGINE_TURNS_SHARE)
    return bool(asked) and find(asked, context, sizes, ways=FoundBy.SAMPLED).status is Status.FAILED


def _sessions(case: Case) -> list[GoingOn]:
    """Return the edits of an engine's session, if it holds one; those of the fewest runs first."""
    edits = [some for some in EDITS if all(map(case.code.has, some))]
    return [GoingOn(case, first, 1, some) for first in (1, TOKENS) for some in edits]


def _second_turn(case: Case) -> list[GoingOn]:
    """Return a second turn; the first one is as long as it takes to end, if its completions can be listed."""
    code, most = case.code, TOKENS
    while code.endings and code.vocab_size <= ENGINE_TURN_COMPLETIONS and most < ENGINE_TURN_TOKENS:
        law = code.law(case.prompt, most)
        if len(law) > ENGINE_TURN_COMPLETIONS or any(is_ended(one, code.endings) for one in law):
            break
        most += 1
    return [GoingOn(case, most, TOKENS)]


def _left_stream(case: Case) -> list[GoingOn]:
    """Return a turn after a stream of which only a token was read, if the engine yields its calls."""
    is_shown = case.code.has("steps") and not case.code.calls_back
    return [GoingOn(case, 1, 1, is_left=True)] if is_shown else []


def _experiment(requests: Requests, one: GoingOn) -> Experiment:
    """Return the experiment of both completions."""
    code, asked, tokens = one.case.code, one.asked(requests.rng), one.first + one.then
    expected = one.law(code.law) if one.edits else {}

    def trace(most_runs: int, end: float) -> TracedOutcome:
        alone = partial(_alone, code, most_runs, end)
        with entropy_seen() as drawn:
            found = replace(traced(asked, most_runs, end), many=None)
            # Both turns have more outcomes: where these are too many, no others need be run.
            expected.update({} if one.edits else one.law(alone))
        differ = partial(_differ, allowed=requests.rounding.a_token)
        if one.edits and differ(found.law, expected) and not differ(found.law, fresh := one.law(alone)):
            expected.clear()
            expected.update(fresh)
        # Samples cannot confirm a claim against an expectation that was traced itself.
        if drawn and not one.edits and differ(found.law, expected):
            raise NoEvidenceError("the engine takes random numbers of the operating system")
        return found

    return Experiment(
        f"{one.case.label}, {one.what}",
        counted(tokens, "token"),
        lambda: expected,
        replace(asked, fresh=False).many,
        trace,
        allowed=2 * tokens * requests.rounding.a_token,
        doubtful=2 * tokens * requests.rounding.unsure,
        group=one.what if one.edits else "",  # what a second turn is compared with is known by tracing only
        shown=lambda found: f"completion {shown(found)}",
        tokens=one.first,
    )


def _differ(law: Mapping[Any, float], expected: Mapping[Any, float], allowed: float) -> bool:
    return any(abs(law.get(one, 0.0) - expected.get(one, 0.0)) > allowed for one in {*law, *expected})


def _alone(code: EngineCode, most_runs: int, end: float, prompt: Ids, tokens: int) -> Mapping[Ids, float]:
    """Return the distribution of the only completion of a fresh copy."""
    asked = replace(completions_of(code, prompt, tokens), fresh=code.unused is not None)
    return traced(asked, most_runs, end).law
