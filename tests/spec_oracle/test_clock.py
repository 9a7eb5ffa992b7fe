"""Other programs on the machine take nothing from the time of code under test."""

import os
import subprocess
import sys
import time

import pytest

from spec_oracle import clock

BUSY = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass"


@pytest.mark.skipif(not clock.waited(), reason="this system does not count waits for a processor")
def test_what_waits_for_a_processor_is_not_timed():
    """A thread shares a processor with two other programs, and gets about a third of it."""
    usual = os.sched_getaffinity(0)
    processor = min(usual)
    others = [subprocess.Popen([sys.executable, "-c", BUSY % processor]) for _ in range(2)]
    try:
        os.sched_setaffinity(0, {processor})
        timed, passed, used = clock.now(), time.monotonic(), time.thread_time()
        while time.thread_time() - used < 0.3:
            pass
        timed, passed, used = clock.now() - timed, time.monotonic() - passed, time.thread_time() - used
    finally:
        os.sched_setaffinity(0, usual)
        for one in others:
            one.kill()
            one.wait()
    assert passed > 1.5 * used
    assert timed - used < (passed - used) / 4


def test_what_waits_for_something_else_is():
    """A device or another process that is waited for takes time of the budget."""
    started = clock.now()
    time.sleep(0.05)
    assert clock.now() - started > 0.04


@pytest.mark.parametrize("text", [None, "", "123", "of another kernel"])
def test_where_nobody_counts_all_seconds_pass(text, tmp_path, monkeypatch):
    counted = tmp_path / "schedstat"
    if text is not None:
        counted.write_text(text)
    monkeypatch.setattr(clock, "_COUNTED", counted)
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    assert clock.now() == 7.0
    counted.write_text("5000000000 2000000000 3")
    assert clock.now() == 5.0
