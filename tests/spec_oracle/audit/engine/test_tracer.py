"""Tracing of completions keeps its budget, by a clock that only runs of the engine advance."""

import time

import pytest

from lab.specimens.call_patterns import SteppingEngine
from spec_oracle.audit.confirm import CLAIM_REPEATS, require_repeated
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.engine.tracer import completions_of, traced
from spec_oracle.audit.experiment import LEAST_RUNS, OVERRUN, Ledger
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.contracts.engine import EngineCode
from tests.spec_oracle.audit.engine import engines
from tests.subjects import of_engine

BUDGET = 4.0


class Clock:
    """Seconds that are counted by hand, in the place of all clocks."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        for name in ("process_time", "monotonic", "perf_counter"):
            monkeypatch.setattr(time, name, lambda: self.now)
        monkeypatch.setattr("spec_oracle.clock.waited", lambda: 0.0)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def traced_at(clock, seconds):
    """Trace completions of three tokens with runs of so many seconds; return how many runs there were."""
    runs = []

    class Slow(SteppingEngine):
        def generate(self, *request, **keywords):
            clock.now += seconds
            runs.append(request)
            return super().generate(*request, **keywords)

    context = Context(inputs=Inputs(prompts=((0,),)))
    subject = of_engine(Slow())
    requests = Requests(subject, context, "test")
    (case,) = subject.cases(context)
    runs.clear()
    try:
        Ledger(BUDGET, 1.0).trace(requests.completion(case, 3))
    except NoEvidenceError as error:
        assert "not all outcomes could be run in time" in str(error)  # noqa: PT017  # both ends are right
        return len(runs), False
    return len(runs), True


def test_slow_runs_end_at_twice_the_budget_although_few_runs_are_always_allowed(clock):
    needed, is_complete = traced_at(clock, 0.0)
    assert is_complete
    assert 50 < needed < LEAST_RUNS
    for seconds in (0.5, 1.0):
        assert traced_at(clock, seconds) == (OVERRUN * BUDGET / seconds + 1, False)
    slow = 1.5 * BUDGET / needed  # longer than the budget, but not too long
    assert traced_at(clock, slow) == (needed, True)


def test_a_trace_is_repeated_once_and_more_often_only_while_time_is_left(clock):
    def find():
        clock.now += 1.0

    for until, repeats in ((0.0, 1), (1.5, 2), (100.0, CLAIM_REPEATS)):
        clock.now = 0.0
        assert require_repeated(find, lambda _: True, until) == repeats == clock.now


class LosesItsSlot(engines.Right):
    """Has one slot, which a call that was given up keeps; its first tokens alternate between two models."""

    is_taken, calls = False, 0

    def generate(self, prompt, max_new_tokens, seed=None):
        if self.is_taken:
            raise RuntimeError("no slot is free")
        self.is_taken, self.calls = True, self.calls + 1
        first = self.draw([1, self.calls % 2 + 1, 1])
        text = super().generate([*prompt, first], max_new_tokens - 1, seed)
        self.is_taken = False
        return [first, *text]


def test_an_engine_goes_on_as_a_copy_where_a_call_was_given_up():
    asked = completions_of(EngineCode(LosesItsSlot()), (0,), 2)
    assert traced(asked, 10_000).remark == "; a generation changes the next ones"
    assert len(asked.many(3)) == 3
