"""Conversations of many turns: what is lost of a long text shows, and right engines stand."""

import random

import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.engine.conversations import later_turns
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects import of_engines
from tests.efforts import set_effort
from tests.spec_oracle.audit.engine import engines
from tests.strategies import at_night

RATE = 1e-9


TOKENS = 160
"""Tokens of a conversation: several times what the caches of these engines hold."""


@pytest.fixture(autouse=True)
def many_short_turns(monkeypatch):
    """Take as many conversations as an audit does, of half the length, and turns of 2 to 32 tokens.

    What is lost of a text shows in the first tokens of a turn: short turns take as many pairs in less time.
    """
    set_effort(monkeypatch, CONVERSATIONS=100, CONVERSATION_PAIRS=1250)
    set_effort(monkeypatch, CONVERSATION_TURN=(1.0, 5.0), CONVERSATION_TOKENS=TOKENS)


def judged(engine, *, seed=0, batched=False, **inputs):
    context = Context(seed, budget=1000.0, inputs=Inputs(**inputs))
    return later_turns(of_engines("mine", {"": engine}).cases(context), 1e-9, context, RATE, batched=batched)


def specimen(name):
    return specimens()[name].engine()[""]


@pytest.mark.parametrize(
    ("engine", "after", "pairs"),
    [
        (specimen("conversation-ring-read-from-its-first-place"), "a whole reply", 1250),
        (specimen("conversation-long-text-is-not-cut"), "a part of a reply", 2000),
        *at_night((engines.ForgetsTheStopToken(), "a whole reply", 2500)),
    ],
)
def test_what_is_lost_of_a_conversation_is_found(engine, after, pairs, monkeypatch):
    set_effort(monkeypatch, CONVERSATION_PAIRS=pairs)
    found = judged(engine)
    assert found.status is Status.FAILED
    assert f"later turns of conversations: after {after} token " in found.detail
    assert "by a copy of the engine that has generated nothing" in found.detail


@pytest.mark.parametrize(
    ("name", "status"),
    [("batch-of-conversations", Status.PASSED), ("batch-keeps-what-was-not-emitted", Status.FAILED)],
)
def test_what_a_batch_leaves_behind_for_the_next_turn_is_found(name, status, monkeypatch):
    """In turns of 2 to 8 tokens: few pairs show the defect, so that it takes many."""
    set_effort(
        monkeypatch, CONVERSATION_TURN=(1.0, 3.0), CONVERSATION_TOKENS=TOKENS // 3, CONVERSATION_PAIRS=5000
    )
    found = judged(specimen(name), batched=True)
    assert found.status is status
    if status is Status.FAILED:
        assert "later turns of conversations, every second one in a batch: after a" in found.detail


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize(
    "name", ["conversation-ring-read-from-its-first-place", "conversation-long-text-is-not-cut"]
)
def test_what_is_lost_of_a_conversation_is_found_whatever_the_seed(name, seed, monkeypatch):
    """At the lengths of an audit."""
    set_effort(monkeypatch, CONVERSATION_TURN=(1.0, 7.0), CONVERSATION_TOKENS=320, CONVERSATION_PAIRS=2500)
    assert judged(specimen(name), seed=seed).status is Status.FAILED


@pytest.mark.parametrize("talks", [25, *at_night(100)])
@pytest.mark.parametrize(
    "name",
    [
        "conversation-keeps-its-last-tokens",
        *at_night("session", "conversation-prompts-in-chunks", "recurrent-engine"),
    ],
)
def test_right_engines_pass(name, talks, monkeypatch):
    set_effort(monkeypatch, CONVERSATIONS=talks)
    found = judged(specimen(name))
    assert found.status is Status.PASSED
    says = f"later turns of conversations of up to {TOKENS} tokens judged one by one"
    assert says in found.remarks.scope[0]


@pytest.mark.parametrize("pairs", [150, *at_night(2500)])
def test_rows_that_depend_on_where_a_prompt_ends_are_no_fault(pairs, monkeypatch):
    set_effort(monkeypatch, CONVERSATION_PAIRS=pairs)
    found = judged(engines.CountsFromThePrompt())
    assert found.status is Status.PASSED
    assert "are distributed as those of unused copies of the engine" in found.remarks.scope[0]
    assert found.remarks.notes[0].endswith(
        "which does not know where a prompt ends; generate_plain would decide it"
    )


@pytest.mark.nightly
def test_long_prompts_are_judged_beside_decoding_without_speculation(monkeypatch):
    set_effort(monkeypatch, CONVERSATION_PAIRS=700)
    found = judged(specimen("conversation-chunk-of-a-prompt-keeps-drafts"))
    assert found.status is Status.FAILED
    assert found.detail.endswith("is distributed otherwise than without speculation after the same prompt")


class OwnPlain(engines.CountsFromThePrompt):
    """Counts from the prompt without speculation, too."""

    generate_plain = engines.CountsFromThePrompt.generate


@pytest.mark.nightly
def test_rows_that_depend_on_where_a_prompt_ends_are_no_fault_beside_plain_decoding(monkeypatch):
    set_effort(monkeypatch, CONVERSATION_PAIRS=150)
    found = judged(OwnPlain())
    assert found.status is Status.PASSED
    assert found.remarks.scope[0].endswith("unused copies of the engine without speculation")
    assert not found.remarks.notes


class PlainByRows(engines.CountsFromThePrompt):
    """Decodes without speculation by its rows, which do not know where a prompt ends."""

    def generate_plain(self, prompt, max_new_tokens, seed=None):
        self.source, text = random.Random(seed), list(prompt)
        while len(text) < len(prompt) + max_new_tokens:
            text.append(self.draw(self.next_token_probs(text)))
        return text[len(prompt) :]


class PlainBesideRows(engines.Stops):
    """Ends after forty tokens at the earliest; decodes without speculation by what its rows come from."""

    prompts = ((0,),)
    start = 1

    def next_token_probs(self, context):
        return self.row(context)

    def row(self, context):
        row = [*engines.TARGET(context)]
        row[2] *= len(context) - self.start >= 40
        return [one / sum(row) for one in row]

    def generate(self, prompt, max_new_tokens, seed=None):
        self.start = len(prompt)
        found = super().generate(prompt, max_new_tokens, seed)
        self.start = 1
        return found

    def generate_plain(self, prompt, max_new_tokens, seed=None):
        self.source, text = random.Random(seed), list(prompt)
        while len(text) < len(prompt) + max_new_tokens and 2 not in text[len(prompt) :]:
            text.append(self.draw(self.row(text)))
        return text[len(prompt) :]


@pytest.mark.parametrize(
    ("engine", "why", "pairs"),
    [
        (PlainByRows, "it asks next_token_probs", 150),
        *at_night((PlainBesideRows, "it keeps to the rows where generate does not", 2500)),
    ],
)
def test_plain_decoding_by_rows_decides_nothing(engine, why, pairs, monkeypatch):
    set_effort(monkeypatch, CONVERSATION_PAIRS=pairs)
    found = judged(engine())
    assert found.status is Status.PASSED
    assert found.remarks.scope[0].endswith("are distributed as those of unused copies of the engine")
    assert found.remarks.notes[0].endswith(f"generate_plain does not decide it: {why}")


class WithoutSeed(engines.CountsFromThePrompt):
    """Takes no seed, so that all of its unused copies generate the same."""

    def generate(self, prompt, max_new_tokens):
        return super().generate(prompt, max_new_tokens)


class NoCopyRuns(engines.CountsFromThePrompt):
    """Has copies, which raise."""

    def __deepcopy__(self, memo):
        return engines.Raises()


@pytest.mark.parametrize("engine", [WithoutSeed, *at_night(NoCopyRuns)])
def test_an_engine_that_cannot_be_compared_with_a_copy_says_so(engine):
    found = judged(engine())
    assert found.status is Status.PASSED
    assert "which does not know where a prompt ends; not compared with a copy" in found.remarks.notes[0]
    assert "contradict next_token_probs (as those of one right engine in 1,000 do)" in found.remarks.notes[0]


def test_a_text_after_which_the_engine_takes_no_prompt_is_named_once():
    (note,) = judged(engines.ShortPrompts()).remarks.notes
    assert note.startswith("long-texts: no turn after a text of ")
    assert "raised ValueError: prompts of up to 3 tokens" in note


def test_conversations_are_as_few_as_long_completions_may_be():
    (line,) = judged(engines.Right(), long=1).remarks.scope
    assert " of 1" in line
