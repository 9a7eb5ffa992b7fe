"""Second turns of conversations: what is lost from the first one shows, and right engines stand."""

import pytest

from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.turns import further_turns
from spec_oracle.audit.results import How, Status
from spec_oracle.audit.subjects import of_engines
from tests.spec_oracle.audit.engine import engines

RATE = 1e-6


def judged(engine):
    subject, context = of_engines("mine", {"": engine()}), Context(budget=600.0)
    requests = Requests(subject, context, "test")
    return further_turns(requests, subject.cases(context), RATE)


@pytest.mark.parametrize(
    ("engine", "status"),
    [
        (engines.Conversation, Status.PASSED),
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
    ],
)
def test_an_engine_without_a_second_turn_says_why(engine, why):
    found = judged(engine)
    assert f"no second turn of a conversation: {why}" in found.remarks.notes[0]
