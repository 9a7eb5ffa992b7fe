"""Second turns of conversations: what is lost from the first one shows, and right engines stand."""

import os
import random
from functools import partial

import pytest

from lab.specimens.call_patterns import SteppingEngine
from lab.specimens.sessions import (
    AppendsBehindPending,
    NoPending,
    RewindLeavesPending,
    SessionEngine,
    StreamingEngine,
)
from lab.specimens.table_engine import TableEngine
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.turns import further_turns
from spec_oracle.audit.results import How, LawResult, Status
from spec_oracle.audit.subjects import of_engines
from spec_oracle.audit.suite import result_of
from tests.spec_oracle.audit.engine import engines
from tests.strategies import at_night
from tests.subjects import of_engine

RATE = 1e-6
ONE_PROMPT = Inputs(prompts=((0,),))


def judged(engine, budget=600.0):
    """Return the result after one prompt: turns after two take twice as long, and show the same."""
    subject, context = of_engine(engine()), Context(budget=budget, inputs=ONE_PROMPT)
    requests = Requests(subject, context, "test")
    return further_turns(requests, subject.cases(context), RATE)


class TakesEntropy(engines.Conversation):
    """Takes a number of the operating system in each generation, as an id of the request."""

    def generate(self, prompt, max_new_tokens, seed=None):
        os.urandom(8)
        return super().generate(prompt, max_new_tokens, seed)


class TakesEntropyAndForgets(TakesEntropy):
    keeps_stop_token = False


@pytest.mark.parametrize(
    ("engine", "status"),
    [
        (engines.Conversation, Status.PASSED),
        (TakesEntropy, Status.PASSED),
        (engines.CountsFromThePrompt, Status.PASSED),
        (engines.ForgetsTheStopToken, Status.FAILED),
    ],
)
def test_a_stop_token_that_is_lost_between_turns_is_found(engine, status):
    found = judged(engine)
    assert (found.status, found.how) == (status, How.PROVEN)


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (engines.ShortPrompts, "raised ValueError: prompts of up to 3"),
        (engines.Untraced, "could not trace the random numbers"),
        (TakesEntropyAndForgets, "the engine takes random numbers of the operating system"),
    ],
)
def test_an_engine_without_a_second_turn_says_why(engine, why):
    found = judged(engine)
    assert f"no second turn of a conversation: {why}" in found.remarks.notes[0]


def test_what_one_call_hides_a_second_turn_is_not_judged_by():
    """Its expectation is traced, too: hidden random numbers would make one right distribution two."""
    joint = LawResult("joint", Status.PASSED, "", how=How.SAMPLED)
    subject, context = of_engine(engines.ForgetsTheStopToken()), Context(results={"joint": joint})
    requests = Requests(subject, context, "test")
    found = further_turns(requests, subject.cases(context), RATE)
    assert found.status is Status.PASSED
    assert "not all traced" in found.remarks.notes[0]


class ManyOutcomes(engines.Right):
    """Takes four random numbers more than it needs for each completion."""

    generated = 0

    def generate(self, prompt, max_new_tokens, seed=None):
        ManyOutcomes.generated += 1
        for _ in range(4):
            self.source.choices(range(3))
        return super().generate(prompt, max_new_tokens, seed)


def test_single_turns_are_not_run_where_both_have_too_many_outcomes():
    found = judged(ManyOutcomes)
    assert "far more than 20000 branches" in found.remarks.notes[0]
    assert ManyOutcomes.generated < 500  # each of nine texts has some thousand outcomes alone


class OnlyAppends(SessionEngine):
    """Cannot be cut."""

    rewind = None


class CountsFromTheReply(SessionEngine):
    """Has another row for the first token of a reply; rows are told for the prompt of one token."""

    start = 1

    def next_token_probs(self, context):
        own = super().next_token_probs(context)
        return [own[-1], *own[:-1]] if len(context) == self.start else own

    verifying = next_token_probs

    def generate(self, prompt, max_new_tokens, seed=None):
        self.start = self.shown if prompt is None else len(prompt)
        found = super().generate(prompt, max_new_tokens, seed)
        self.start = 1
        return found


class CountsFromTheReplyBehindPending(CountsFromTheReply, AppendsBehindPending):
    """The same, and appends to the cache."""


class ForgetsTheSession(SessionEngine):
    """Has methods of these names, and no session."""

    def generate(self, prompt, max_new_tokens, seed=None):
        return super().generate([*prompt], max_new_tokens, seed)


@pytest.mark.parametrize(
    ("engine", "wrong"),
    [
        (SessionEngine, ""),
        *at_night((NoPending, ""), (OnlyAppends, ""), (CountsFromTheReply, "")),
        *at_night((CountsFromTheReplyBehindPending, "prompt 0, session after append: completion ")),
        (AppendsBehindPending, "prompt 0, session after append: completion "),
        *at_night((RewindLeavesPending, "prompt 0, session after rewind: completion ")),
    ],
)
def test_a_session_goes_on_from_the_text_that_its_user_was_shown(engine, wrong):
    found = judged(partial(engine, draft_length=1), budget=20.0)
    assert (found.status, found.how) == (Status.FAILED if wrong else Status.PASSED, How.PROVEN)
    assert found.detail.startswith(wrong)


class Wide(SessionEngine):
    """Takes more random numbers than it needs for completions of two tokens, so that they are sampled."""

    def generate(self, prompt, max_new_tokens, seed=None):
        text = super().generate(prompt, max_new_tokens, seed)
        for _ in range(12 if max_new_tokens > 1 else 0):
            random.choices(range(3))
        return text


class WideCountsFromTheReply(CountsFromTheReply, Wide):
    """Counts from the reply, and is sampled."""


class WideAppendsBehindPending(AppendsBehindPending, Wide):
    """Appends to the cache, and is sampled."""

    def append(self, tokens):
        pending = self.held[self.shown :] if self.shown > 2 else []
        self.held = [*self.held[: self.shown], *pending, *tokens]
        self.shown = len(self.held)


@pytest.mark.parametrize(
    ("engine", "status"),
    [(WideCountsFromTheReply, Status.PASSED), *at_night((WideAppendsBehindPending, Status.FAILED))],
)
def test_a_sampled_session_is_compared_with_requests_where_rows_do_not_know_it(engine, status):
    found = judged(partial(engine, draft_length=1), budget=60.0)
    assert found.status is status
    if status is Status.FAILED:
        assert found.how is How.SAMPLED
    else:
        assert found.remarks.notes[-1].endswith("so do requests with the same text as their prompt")


def test_calls_judges_sessions():
    """Behind longer completions, which take all of their part of a larger budget."""
    subject = of_engines("mine", {"": AppendsBehindPending(draft_length=1)})
    found = result_of("calls", subject, Context(budget=0.5, inputs=ONE_PROMPT))
    assert (found.status, found.how) == (Status.FAILED, How.PROVEN)
    assert found.detail.startswith("prompt 0, session after append: completion ")


def test_methods_of_these_names_without_a_session_are_not_judged():
    found = judged(partial(ForgetsTheSession, draft_length=1), budget=20.0)
    assert found.status is Status.PASSED
    assert found.remarks.notes[0].startswith("calls: no session after append: raised TypeError: ")


class ShowsCallsAtOnce(StreamingEngine):
    """Shows its calls only after the last one."""

    def steps(self, prompt, max_new_tokens, seed=None):
        return [*super().steps(prompt, max_new_tokens, seed)]


class HandsCallsOver(SteppingEngine):
    """Hands its calls to a function, and cannot go on where that raises."""

    is_broken = False

    def generate(self, prompt, max_new_tokens, seed=None):
        if self.is_broken:
            raise ValueError("left")
        return TableEngine.generate(self, prompt, max_new_tokens, seed)

    def steps(self, prompt, max_new_tokens, seed=None, *, on_call):
        self.is_broken = True
        for emitted in SteppingEngine.steps(self, prompt, max_new_tokens, seed):
            on_call(emitted)
        self.is_broken = False


@pytest.mark.parametrize(
    ("engine", "wrong"),
    [
        (StreamingEngine, ""),
        (HandsCallsOver, ""),
        (partial(StreamingEngine, cuts_late=True), "prompt 0, turn after a stream that was left: "),
    ],
)
def test_a_stream_that_is_left_leaves_no_drafts_behind(engine, wrong):
    """Only of engines that yield their calls: their streams are closed, and no exception passes through."""
    found = judged(partial(engine, draft_length=1), budget=60.0)
    assert (found.status, found.how) == (Status.FAILED if wrong else Status.PASSED, How.PROVEN)
    assert found.detail.startswith(wrong)


def test_a_stream_that_cannot_be_left_is_named():
    found = judged(partial(ShowsCallsAtOnce, draft_length=1))
    assert found.status is Status.PASSED
    assert found.remarks.notes[0].startswith("calls: no turn after a stream that was left: steps returns all")
