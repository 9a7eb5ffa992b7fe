"""Completions of hundreds of tokens: what breaks late is found, what looks like it stands."""

import re

import pytest

from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.long_texts import long_batches
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects import of_engines
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import engine as contract
from spec_oracle.contracts import raising
from spec_oracle.contracts.engine import NoLawError
from tests.efforts import set_effort
from tests.spec_oracle.audit.engine import engines
from tests.strategies import at_night, by_day
from tests.subjects import of_engine

LATE = [
    name
    for name, found in specimens().items()
    if found.detected_by == ("long-texts",)
    and not name.endswith("-of-a-completion")
    and not name.startswith("conversation-")
]
RIGHT = ("blocks-of-64-tokens", "window-of-two-tokens", "recurrent-six-drafts")


CONTEXT = Context(budget=1000.0)


@pytest.fixture(autouse=True)
def few_completions(monkeypatch):
    """Take as many completions as find what breaks late."""
    set_effort(monkeypatch, ENGINE_MIDDLE_COUNT=100, ENGINE_LONG_COUNT=16, ENGINE_LONG_BATCH_COUNT=200)


def judged(engine):
    return result_of("long-texts", of_engine(engine), CONTEXT)


def specimen(name):
    return specimens()[name].engine()[""]


@pytest.mark.parametrize("name", LATE)
def test_late_defects_are_found(name, monkeypatch):
    if name.startswith("corner-"):  # five places of a completion
        set_effort(monkeypatch, ENGINE_LONG_COUNT=150)
    found = judged(specimen(name))
    assert found.status is Status.FAILED
    assert "contradict their next-token distributions" in found.detail
    assert found.remarks.scope[0].startswith("completions of up to ")


@pytest.mark.parametrize("name", by_day(RIGHT, ["blocks-of-64-tokens"]))
def test_right_engines_pass(name, monkeypatch):
    set_effort(monkeypatch, ENGINE_MIDDLE_COUNT=64)
    found = judged(specimen(name))
    assert found.status is Status.PASSED
    assert "(between bins, a total variation a token of" in found.detail


@pytest.mark.parametrize("name", ["ragged-batch", "ragged-mask", "ragged-cache"])
def test_batches_of_unlike_requests_are_judged_at_length(name):
    cases = of_engine(specimen(name)).cases(CONTEXT)
    found = long_batches(cases, 1e-9, CONTEXT, 1e-7)
    assert found.status is (Status.PASSED if name == "ragged-batch" else Status.FAILED)
    assert found.detail.startswith("batches: ")


def test_rows_of_a_completion_take_one_guarded_call(monkeypatch):
    (code,) = of_engine(engines.Right()).engines.values()
    rows, guarded = (40, code.vocab_size), []
    monkeypatch.setattr(contract, "raising", lambda: guarded.append(1) or raising())
    assert code.rows_along((0,), (1, 2) * 20).shape == rows
    assert len(guarded) == 1


def test_a_row_that_is_no_distribution_is_named_by_its_context():
    class Negative(engines.Right):
        def next_token_probs(self, context):
            return [1.5, -0.5, 0.0] if len(context) == 3 else [0.5, 0.5, 0.0]

    (code,) = of_engine(Negative()).engines.values()
    with pytest.raises(NoLawError, match=r"after \(0, 1, 2\) is no distribution"):
        code.rows_along((0,), (1, 2, 0))


def test_completions_that_end_early_are_not_long():
    assert re.match(r"completions end after 2\.\d tokens", judged(engines.Stops()).detail)


class EndsSoon(engines.Stops):
    """Ends after eight tokens on average: long before any text is long, long after those that are traced."""

    prompts = ((0,),)

    def next_token_probs(self, context):
        *others, stop = engines.TARGET(context)
        return [share * (1 - stop / 4) / sum(others) for share in others] + [stop / 4]


class LateAndEndsSoon(EndsSoon):
    """From its sixth token on every draft is accepted."""

    def target(self, context, emitted):
        text = [*context, *emitted]
        return self.draft_probs(text) if len(text) > 5 else self.next_token_probs(text)


class Batches(EndsSoon):
    """The same completions in a batch, by the engine that ``alone`` makes."""

    alone = EndsSoon

    def generate_batch(self, prompts, max_new_tokens, seeds):
        one = self.alone()
        return [
            one.generate(prompt, max_new_tokens, seed) for prompt, seed in zip(prompts, seeds, strict=True)
        ]


class LateBatches(Batches):
    alone = LateAndEndsSoon


class LongBatches(engines.Right):
    """Completions that do not end, and right ones of batches."""

    alone = engines.Right
    generate_batch = Batches.generate_batch


class EndsABlock(engines.Right):
    """Every draft is accepted once there are 64 tokens, a block of a cache."""

    def target(self, context, emitted):
        text = [*context, *emitted]
        return self.draft_probs(text) if len(text) > 64 else self.next_token_probs(text)


class BlocksOfBatches(LongBatches):
    alone = EndsABlock


@pytest.mark.parametrize(
    ("engine", "status"),
    [
        (Batches, Status.PASSED),
        (LateBatches, Status.FAILED),
        (LongBatches, Status.PASSED),
        (BlocksOfBatches, Status.FAILED),
    ],
)
def test_what_breaks_behind_the_traced_tokens_is_found_in_batches_too(engine, status):
    found = long_batches(of_engine(engine()).cases(CONTEXT), 1e-9, CONTEXT, 1e-7)
    assert found.status is status


@pytest.mark.parametrize(("engine", "status"), [(EndsSoon, Status.PASSED), (LateAndEndsSoon, Status.FAILED)])
def test_what_breaks_behind_the_traced_tokens_is_found_where_completions_end_soon(engine, status):
    found = judged(engine())
    assert found.status is status
    assert found.remarks.scope[0].startswith("completions of up to ")


@pytest.mark.parametrize(
    ("name", "status"), [*at_night(("window-of-two-tokens", Status.PASSED)), (LATE[0], Status.FAILED)]
)
def test_long_completions_are_judged_beside_an_engine_whose_end_early(name, status):
    """As of onnxruntime-genai, half of whose engines have a stop token: no long text was judged."""
    subject = of_engines("mine", {"stops": engines.Stops(), "goes on": specimen(name)})
    assert result_of("long-texts", subject, CONTEXT).status is status


def test_a_completion_that_goes_on_behind_its_end_fails():
    found = judged(specimen("pattern-short-stop-window"))
    assert found.status is Status.FAILED
    assert "after its end" in found.detail


def test_wrong_rows_are_no_fault_of_the_engine():
    found = judged(engines.WrongRows())
    assert found.status is Status.INCONCLUSIVE
    assert "without speculation they do so, too" in found.detail


class GoesOn(engines.Right):
    """Never ends at its stop sequence; without speculation it begins with it."""

    stop_sequences = ((0, 1, 0, 1),)
    asked = 0

    def generate_plain(self, prompt, max_new_tokens, seed=None):
        GoesOn.asked += 1
        return ([0, 1] * max_new_tokens)[:max_new_tokens]


def test_completions_without_speculation_that_cannot_be_are_not_sampled_on():
    found = judged(GoesOn())
    assert found.status is Status.INCONCLUSIVE
    assert "after its end; without speculation they do so, too" in found.detail
    assert GoesOn.asked < 300


class Short(engines.Right):
    """Has room for a hundred tokens."""

    def generate(self, prompt, max_new_tokens, seed=None):
        if max_new_tokens > 100:
            raise ValueError("too long")
        return super().generate(prompt, max_new_tokens, seed)


def test_engines_with_less_room_are_judged_on_shorter_completions():
    found = judged(Short())
    assert found.status is Status.PASSED
    assert any(one.startswith("completions of up to 100 tokens") for one in found.remarks.scope)
    assert "no completions of 320 tokens: " in found.remarks.notes[0]


class TwelveTokens(EndsABlock):
    """Has room for twelve tokens, as toy models do; from ``late`` on it accepts all drafts."""

    late = 1000

    def target(self, context, emitted):
        text = [*context, *emitted]
        return self.draft_probs(text) if len(text) > self.late else self.next_token_probs(text)

    def generate(self, prompt, max_new_tokens, seed=None):
        if len(prompt) + max_new_tokens > 12:
            raise ValueError("longer than 12")
        return super().generate(prompt, max_new_tokens, seed)


class LateInTwelveTokens(TwelveTokens):
    late = 7


@pytest.mark.parametrize(
    ("engine", "status"), [(TwelveTokens, Status.PASSED), (LateInTwelveTokens, Status.FAILED)]
)
def test_engines_with_room_for_a_few_tokens_are_judged_on_these(engine, status):
    found = judged(engine())
    assert found.status is status
    assert found.remarks.scope[0].startswith("completions of up to 11 tokens")
    assert "no completions of 24 tokens: raised ValueError: longer than 12" in found.remarks.notes[0]


class RaisesSoon(engines.Right):
    """Raises behind its third token."""

    def generate(self, prompt, max_new_tokens, seed=None):
        if max_new_tokens > 3:
            raise ValueError("too long")
        return super().generate(prompt, max_new_tokens, seed)


def test_engines_with_room_for_less_than_that_are_left_open():
    found = judged(RaisesSoon())
    assert found.status is Status.INCONCLUSIVE
    assert found.detail.startswith("raised ValueError: too long")


class Forbidden(engines.Right):
    """Its rows rule a token out that it draws."""

    def next_token_probs(self, context):
        return [0.0, 0.5, 0.5]

    def target(self, context, emitted):
        return [0.01, 0.495, 0.495]

    def draft_probs(self, context):
        return [1 / 3, 1 / 3, 1 / 3]


def test_tokens_of_probability_0_are_distinguished_from_rounding():
    found = judged(Forbidden())
    assert found.status is Status.FAILED
    assert "where it has probability 0" in found.detail


def test_transformers_rows_along_a_completion_are_those_after_each_prefix():
    pytest.importorskip("transformers")
    from spec_oracle.third_party.engines.hugging_face import OPTIONS, assisted

    engine = assisted(OPTIONS["repetition penalty"])
    along = engine.rows_along((0, 1), (2, 0, 1))
    after = [engine.next_token_probs((0, 1, *(2, 0, 1)[:end])) for end in range(3)]
    assert [row.tolist() for row in along] == [row.tolist() for row in after]
