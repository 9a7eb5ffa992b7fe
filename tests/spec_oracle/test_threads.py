"""What surrounds calls of code under test: nothing that it sets, waits for, or loses harms an audit."""

import queue
import sys
import time
import warnings

import numpy as np
import pytest

from spec_oracle import threads
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode, SubjectRaisedError
from spec_oracle.threads import CallEndedError, at_most, raising, watched
from tests.spec_oracle.audit import surroundings
from tests.subjects import checks_of, sampler

QUICK = AuditOptions(vocab_size=2, draft_length=1, budget=1.0, shrink=False, checks=())


def report_on(function):
    started = time.monotonic()
    (found,) = audit(function, options=QUICK).subjects
    assert time.monotonic() - started < 60
    return found


def joint_of(found):
    return checks_of(found)["joint"]


def test_bad_input_names_the_input_and_the_line_of_a_loop_without_end(monkeypatch):
    monkeypatch.setattr("spec_oracle.audit.effort.BAD_INPUT_SECONDS", 0.2)
    monkeypatch.setattr("spec_oracle.audit.sampler.bad_input.PATIENCE", 0.3)
    subject = sampler(surroundings.loops_on_nan)
    with watched():
        found = result_of("bad-input", subject, Context(shrink=False))
    assert found.status is Status.FAILED
    assert "NaN target probabilities: still running after 0." in found.detail
    assert "surroundings.py:" in found.detail


def test_bad_input_calls_slow_code_again(monkeypatch):
    """As a function that is compiled a second time, for other input."""
    monkeypatch.setattr("spec_oracle.audit.effort.BAD_INPUT_SECONDS", 0.2)
    monkeypatch.setattr("spec_oracle.audit.sampler.bad_input.BAD_INPUT_SLOWER", 1.0)
    code = SamplerCode(surroundings.compiles_for_nan())
    with watched():
        found = result_of("bad-input", SamplerSubject("mine", code), Context(shrink=False))
    assert found.status is Status.PASSED


def test_a_call_that_waits_for_ever_is_ended_with_its_line(monkeypatch):
    monkeypatch.setattr(threads, "WAITING_SECONDS", 0.5)
    found = report_on(surroundings.waits_for_a_thread_that_ended)
    assert found.verdict is SubjectVerdict.INCONCLUSIVE
    assert "waiting for 0.5 s without using the processor (at " in joint_of(found).detail
    assert "surroundings.py:2" in joint_of(found).detail


def test_looks_at_a_call_that_waits_are_no_sign_of_life(monkeypatch):
    monkeypatch.setattr(threads, "WAITING_SECONDS", 0.5)
    monkeypatch.setattr(threads, "_LOOKS", 1e-3)
    with watched(), pytest.raises(CallEndedError, match=r"waiting for 0\.5 s"), raising(20.0):
        queue.Queue().get()


def test_threads_that_deliver_are_waited_for():
    assert report_on(surroundings.prefetches).verdict is SubjectVerdict.LOSSLESS


def test_calls_that_take_their_time_are_waited_for():
    with watched(), raising(60.0):
        time.sleep(0.1)


def loops():
    while True:
        pass


def test_a_call_is_ended_after_its_seconds_and_not_before():
    started = time.monotonic()
    with (
        watched(),
        at_most(0.2),
        pytest.raises(CallEndedError, match=r"after 0\.2 s \(at .*test_threads\.py"),
        raising(),
    ):
        loops()
    assert 0.2 <= time.monotonic() - started < 10


@pytest.mark.parametrize(
    "function",
    [
        surroundings.is_strict,
        surroundings.replaces_its_output,
    ],
)
def test_process_wide_settings_of_the_code_are_undone(function):
    before = np.geterr(), [*warnings.filters], sys.stdout, sys.stderr
    assert report_on(function).verdict is SubjectVerdict.LOSSLESS
    assert (np.geterr(), [*warnings.filters], sys.stdout, sys.stderr) == before


def test_errors_name_the_line_of_the_user():
    with (
        pytest.raises(
            SubjectRaisedError, match=r"raised ZeroDivisionError: .* \(at .*test_threads\.py:\d+\)"
        ),
        raising(),
    ):
        _ = 1 / 0
