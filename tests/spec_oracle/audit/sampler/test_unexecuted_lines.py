"""Lines that no recorded call ran are named: nothing is known of what they do."""

import inspect

import pytest

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, Status
from spec_oracle.audit.sampler import unexecuted_lines as unrun
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode
from tests.spec_oracle.audit.sampler import waiting

JOINT = CheckResult("joint", Status.PASSED, "every outcome traced", how=How.PROVEN)


def lines_of(function, text):
    """Return the line of a function that holds a text, in its file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def notes_on(function):
    subject = SamplerSubject("mine", SamplerCode(function))
    found = result_of("bad-input", subject, Context(results={"joint": JOINT}))
    assert found.status is Status.PASSED
    return found.notes


def test_lines_that_wait_for_a_size_are_named():
    (note,) = notes_on(waiting.for_a_size)
    first, last = (lines_of(waiting.for_a_size, text) for text in ("np.roll", "*= 1"))
    assert note.startswith("not judged, because it was not seen to run: ")
    assert note.endswith(f"waiting.py:{first}-{last}")


def test_what_raises_is_not_named_but_functions_that_nobody_calls_are():
    (note,) = notes_on(waiting.for_nothing)
    assert note.endswith(f"waiting.py:{lines_of(waiting.for_nothing, 'return None')}")


def rare(draft_tokens, draft_probs, target_probs, generator):
    if (target_probs[:, 0] == draft_probs[:, 0]).all():
        target_probs = target_probs.copy()
    return waiting.TOKEN(draft_tokens, draft_probs, target_probs, generator)


@pytest.mark.parametrize("how", [How.PROVEN, How.SAMPLED])
def test_lines_that_only_toys_run_are_looked_for_where_code_can_be_traced(how, monkeypatch):
    """Of code that cannot, toys show nothing."""
    monkeypatch.setattr(f"{__name__}.JOINT", CheckResult("joint", Status.PASSED, "", how=how))
    assert bool(notes_on(rare)) == (how is How.SAMPLED)


def test_of_many_places_a_few_are_named(monkeypatch):
    monkeypatch.setattr(unrun, "unrun", lambda steps: [f"mine.py:{line}" for line in range(9)])
    note = unrun.note_on(SamplerSubject("mine", SamplerCode(rare)), Context())
    assert note.endswith("mine.py:0, mine.py:1, mine.py:2, mine.py:3 and 5 more")
