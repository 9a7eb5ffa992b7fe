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
    return requests, further_turns(requests, subject.cases(context), RATE)


@pytest.mark.parametrize(
    ("engine", "status", "how"),
    [
        (engines.Conversation, Status.PASSED, How.PROVEN),
        (engines.CountsFromThePrompt, Status.PASSED, How.PROVEN),
        (engines.ForgetsTheStopToken, Status.FAILED, How.PROVEN),
        (engines.Untraced, Status.PASSED, How.SAMPLED),
        (engines.UntracedForgets, Status.FAILED, How.SAMPLED),
    ],
)
def test_a_stop_token_that_is_lost_between_turns_is_found(engine, status, how):
    """Sampled, one run in a million fails; the turn after a lost stop token is off by 0.14."""
    _, found = judged(engine)
    assert (found.status, found.how) == (status, how)


def test_an_engine_that_takes_no_longer_prompt_has_no_second_turn():
    requests, found = judged(engines.ShortPrompts)
    assert found is None
    assert "no second turn of a conversation: raised ValueError: prompts of up to 3" in requests.notes[0]
