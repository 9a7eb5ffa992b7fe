"""The call after every pattern of accepted lengths: all are reached, and averages are not defects."""

import re
from dataclasses import replace

import pytest

from lab.specimens.call_patterns import DraftsAhead, SlightlyWrong, SteppingEngine
from lab.specimens.registry import specimens
from spec_oracle.audit import AuditOptions, SubjectVerdict, audit
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.engine.next_call import History, TracedCalls
from spec_oracle.audit.engine.patterns import after_patterns
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.audit.results import Cause, How, Status
from spec_oracle.contracts import ContractError
from spec_oracle.exact.completions import distance
from tests.subjects import checks_of, of_engine

CONTEXT = Context(budget=60.0, inputs=Inputs(prompts=((0,),)))
"""With one prompt: to trace calls after two takes twice as long, and shows the same."""

EXACT = Rounding(1e-9, unsure=1e-9)


def judged(engine, seconds=30.0, budget=60.0, rounding=EXACT):
    subject, context = of_engine(engine), replace(CONTEXT, budget=budget)
    requests = Requests(subject, context, "test")
    requests.rounding = rounding
    return after_patterns(requests, subject.cases(context, "steps"), context.rate, seconds)


def test_every_pattern_of_a_right_engine_is_covered():
    found = judged(SteppingEngine(draft_length=1))
    assert found.status is Status.PASSED
    assert "after 8 of 8 patterns of three accepted lengths" in found.remarks.scope[0]
    assert "not reached" not in found.remarks.scope[0]


class WrongWithSeeds(SteppingEngine):
    """Does not test the draft of a request with a seed after two accepted ones."""

    def emitted(self, context, drafts, uniform, seed):
        self.is_wrong = lambda past: seed is not None and past[-2:] == [(1, 1), (1, 1)]
        return super().emitted(context, drafts, uniform, seed)


def test_calls_after_patterns_are_judged_with_a_seed_too():
    found = judged(WrongWithSeeds(draft_length=1))
    assert found.status is Status.FAILED
    assert found.detail.startswith("prompt 0, with a seed, the call after accepted lengths 1-1: completion ")


class FirstIsBare(SteppingEngine):
    """Drafts nothing in its first call, as engines do that process the prompt in a call of its own."""

    def drafts(self, context, most, uniform, seed):
        return super().drafts(context, most if self.past else 0, uniform, seed)


def test_patterns_that_never_occur_are_not_missing():
    """Without drafts is the first call only: 8 patterns without it, 4 that begin with it, of 27."""
    found = judged(FirstIsBare(draft_length=1))
    assert "after 12 of 12 patterns of three accepted lengths" in found.remarks.scope[0]
    assert "; 15 more did not occur" in found.remarks.scope[0]
    assert "not reached" not in found.remarks.scope[0]


def after(calls, history, *lengths):
    """Return the likeliest history that goes on with these accepted lengths."""
    for length in lengths:
        history = next(one for one in calls.longer(history) if one.pattern[-1] == length)
    return history


def off(calls, history, averaged=0):
    return distance(*calls.laws(history, averaged))


def test_a_call_takes_few_runs_whatever_came_before():
    """After two full acceptances one call is enumerated, not the completion of nine tokens."""
    engine = specimens()["pattern-two-full"].engine()[""]
    (case,) = of_engine(engine).cases(CONTEXT, "steps")[:1]
    calls = TracedCalls(case, 24)
    one = after(calls, History(), 2)
    two = after(calls, one, 2)
    before = calls.runs
    assert two.pattern == (2, 2)
    assert off(calls, one) < 1e-12
    assert off(calls, two) == pytest.approx(0.43, abs=0.01)
    assert calls.runs - before < 100


def test_a_token_that_a_call_left_open_takes_no_further_run():
    torch = pytest.importorskip("torch")

    def drawn(row, *_):
        return torch.multinomial(torch.tensor(row, dtype=torch.float64), 1).tolist()[0]

    by_torch = SteppingEngine(draft_length=1, choose=drawn)
    (case,) = of_engine(by_torch).cases(CONTEXT, "steps")[:1]
    calls = TracedCalls(case, 24)
    first = History()
    outcomes, before = len(calls.after(first)), calls.runs
    histories = calls.longer(first)[:4]
    assert before == calls.runs < outcomes
    assert max(off(calls, one, averaged) for one in histories for averaged in (0, 1)) < 1e-12


def test_drafts_made_ahead_are_averaged():
    (case,) = of_engine(DraftsAhead(draft_length=1)).cases(CONTEXT, "steps")[:1]
    calls = TracedCalls(case, 24)
    one = after(calls, History(), 1)
    assert off(calls, one) > 0.01
    assert off(calls, one, averaged=1) < 1e-12


def test_a_rule_with_carry_over_is_not_lossy():
    found = judged(specimens()["pattern-carries-over"].engine()[""])
    assert found.status is Status.PASSED
    assert "right on average over earlier calls only, by samples: after no call" in found.remarks.scope[0]


def test_drafts_made_three_calls_ahead_are_averaged_without_samples():
    """Given the calls before, the third one is off by what the first one hides, and right on average."""
    found = judged(specimens()["pattern-drafts-three-calls-ahead"].engine()[""])
    assert (found.status, found.measured.draws) == (Status.PASSED, 0)
    assert "after 13 of 13 patterns of three accepted lengths" in found.remarks.scope[0]
    assert "by samples" not in found.remarks.scope[0]


def test_a_deviation_that_completions_cannot_decide_is_undecided():
    """Off by 3e-4 after 1-1, which takes some 10^8 completions: the report says so."""
    found = judged(SlightlyWrong(draft_length=1, more=1.001), budget=1.0)
    assert (found.status, found.cause, found.how) == (Status.INCONCLUSIVE, Cause.UNDECIDED, How.SAMPLED)
    assert "prompt 0, the call after accepted lengths 1-1: completion " in found.detail
    assert "neither confirm nor refute it; about " in found.detail
    assert "(--budget " in found.detail
    assert "after 5 of 8 patterns of three accepted lengths" in found.remarks.scope[0]


@pytest.mark.nightly
def test_a_subject_with_an_undecided_deviation_is_never_called_lossless():
    options = AuditOptions(budget=1.0, checks=("calls",))
    report = audit(SlightlyWrong(draft_length=1, more=1.001), options=options)
    (found,) = report.subjects
    assert {check.name: check.status for check in found.checks}["joint"] is Status.PASSED
    assert found.verdict is SubjectVerdict.INCONCLUSIVE
    assert report.exit_code == 2


class WrongTwice(SlightlyWrong):
    """Takes its draft for certain after 0-0, besides."""

    def emitted(self, context, drafts, uniform, seed):
        if self.past[-2:] == [(1, 0), (1, 0)]:
            self.drafted += len(drafts)
            return [*drafts, self.choose(self.target([*context, *drafts]), uniform(), seed)]
        return super().emitted(context, drafts, uniform, seed)


def test_an_undecided_call_hides_no_defect_after_another_pattern():
    found = judged(WrongTwice(draft_length=1, more=1.001))
    assert found.status is Status.FAILED
    assert "after accepted lengths 0-0" in found.detail


def test_deviations_that_may_be_rounding_are_undecided_and_take_no_completions():
    found = judged(SlightlyWrong(draft_length=1, more=1.00001), rounding=Rounding(1e-9, unsure=1e-3))
    assert (found.status, found.cause, found.measured.draws) == (Status.INCONCLUSIVE, Cause.UNDECIDED, 0)
    assert "cannot be told from rounding" in found.detail


class AllAtOnce(SteppingEngine):
    """Shows its calls after the last one."""

    def steps(self, prompt, max_new_tokens, seed=None):
        return [*super().steps(prompt, max_new_tokens, seed)]


class Counting(SteppingEngine):
    """Shows its calls by an iterator that is no generator."""

    def steps(self, prompt, max_new_tokens, seed=None):
        return map(list, super().steps(prompt, max_new_tokens, seed))


def test_calls_come_by_any_iterator():
    assert "after 8 of 8 patterns" in judged(Counting(draft_length=1)).remarks.scope[0]


def test_calls_that_are_shown_too_late_are_not_judged():
    found = judged(AllAtOnce())
    assert found.status is Status.PASSED
    assert found.remarks.scope[0].endswith(
        "(steps returns all calls at once: yield each one as soon as it has ended)"
    )


class CallsBackAndYields(SteppingEngine):
    """Takes a function for its calls, and yields them all the same."""

    def steps(self, prompt, max_new_tokens, seed=None, on_call=None):
        yield from super().steps(prompt, max_new_tokens, seed)


def test_steps_that_yield_and_take_a_function_are_told_to_do_one_of_both():
    with pytest.raises(ContractError, match="steps has a parameter on_call, and yields its calls"):
        judged(CallsBackAndYields())


def test_more_completions_confirm_what_few_leave_open():
    """Off by 0.06 after 1-1: thousands of completions confirm it."""
    found = judged(SlightlyWrong(draft_length=1, more=1.2), budget=600.0)
    assert found.status is Status.FAILED
    assert "after accepted lengths 1-1" in found.detail
    assert re.search(r"\d,\d{3} uninstrumented samples agree", found.remarks.scope[-1])


class OnlyStepsAreRight(SteppingEngine):
    """Generates by other code than it shows its calls by: wrongly after two accepted drafts."""

    def generate(self, prompt, max_new_tokens, seed=None):
        self.is_wrong = lambda past: past[-2:] == [(1, 1), (1, 1)]
        try:
            return super().generate(prompt, max_new_tokens, seed)
        finally:
            self.is_wrong = lambda past: False


class SameByOtherCode(SteppingEngine):
    """Generates by other code than it shows its calls by, which does the same."""

    def generate(self, prompt, max_new_tokens, seed=None):
        text = []
        for emitted in SteppingEngine.steps(self, prompt, max_new_tokens, seed):
            text = [*text, *emitted]
        return text


def test_steps_and_generate_must_return_the_same():
    found = judged(OnlyStepsAreRight(draft_length=1))
    assert found.status is Status.INCONCLUSIVE
    assert "under the same random decisions generate makes other " in found.detail
    assert found.remarks.do.startswith("let generate return what steps yields")
    assert judged(SameByOtherCode(draft_length=1)).status is Status.PASSED


def test_calls_after_patterns_that_were_not_run_are_said():
    failing = OnlyStepsAreRight(draft_length=1, passes=lambda *_: True)
    options = AuditOptions(budget=1.0, checks=("calls",))
    (found,) = audit(failing, options=options).subjects
    calls = checks_of(found)["calls"]
    assert calls.status is Status.FAILED
    assert "the call after every pattern of acceptance was not run after a failure" in calls.remarks.scope


class StaysBusy(SteppingEngine):
    """Takes one request at a time, and waits for ever for the rest of a stream that was left."""

    is_busy = False

    def steps(self, prompt, max_new_tokens, seed=None):
        if self.is_busy:
            raise RuntimeError("a request is running")
        self.is_busy, left = True, max_new_tokens
        for emitted in super().steps(prompt, max_new_tokens, seed):
            left -= len(emitted)
            self.is_busy = left > 0
            yield emitted


def test_an_engine_that_a_left_stream_locks_is_judged_by_its_copies():
    options = AuditOptions(checks=("joint", "calls"), budget=20.0, prompts=((0,),))
    (found,) = audit(StaysBusy(draft_length=1), options=options).subjects
    assert found.verdict is SubjectVerdict.LOSSLESS
    (note,) = [note for note in checks_of(found)["calls"].remarks.notes if "stream" in note]
    assert note.startswith("calls: no turn after a stream that was left: raised RuntimeError: a request is")
