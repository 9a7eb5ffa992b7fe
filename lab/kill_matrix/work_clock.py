"""A clock that counts work: what audits decide by time is then the same on every machine, under any load.

Audits read a clock to know how many samples their budget pays. While `counted` replaces it, a second is so
many requests, calls and traced random numbers, whatever they take; seconds of a budget are an amount of work.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import spec_oracle.clock
from spec_oracle import threads
from spec_oracle.contracts import SamplerCode
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.threads import Raising

READ: Final = 10
"""Microseconds of a look at the clock: tracing looks once a random number or a comparison of one."""

CALL: Final = 100
"""Microseconds of a call of code under test; rows along a completion count as a call each, or two."""

REQUEST: Final = 20
"""Microseconds of each request of a call that verifies or decodes several."""

CLOCKS: Final = ("monotonic", "perf_counter", "process_time")
"""What audits read, of the module `time`."""

LOOKS: Final = 60.0
"""Seconds between two looks at a call, which is ended if it hangs: few, since busy machines are slow."""

_REAL: Final = SimpleNamespace(**{name: getattr(time, name) for name in (*CLOCKS, "thread_time")})


@dataclass
class WorkClock:
    """``microseconds`` of work so far, by the costs above."""

    microseconds: int = 0

    def spend(self, microseconds: int) -> None:
        """Add some work."""
        self.microseconds += microseconds

    def read(self) -> float:
        """Return the seconds of work; looks of other threads are not counted, since they come at random."""
        if threading.current_thread() is threading.main_thread():
            self.spend(READ)
        return self.microseconds / 1e6


@contextmanager
def counted() -> Iterator[WorkClock]:
    """Replace the clocks of `time` by one that counts work, for audits in this process.

    Calls of code under test that hang are still ended by the time of day: the module that watches them keeps
    the real clocks.
    """
    clock = WorkClock()
    call, session, begin = SamplerCode.__call__, EngineCode.session, Raising.__enter__
    rows_along = EngineCode.rows_along

    def counted_call(code: Any, drafts: Any, *arguments: Any, **options: Any) -> Any:
        clock.spend(REQUEST * drafts.batch)
        return call(code, drafts, *arguments, **options)

    def counted_session(code: Any, prompt: Any, tokens: int, seeds: Any) -> Any:
        clock.spend(REQUEST * len(seeds))
        return session(code, prompt, tokens, seeds)

    def counted_rows(code: Any, prompt: Any, completion: Any) -> Any:
        calls = 1 if code.has("rows_along") else 2  # to make a row, and to check it
        clock.spend(calls * CALL * len(completion))
        return rows_along(code, prompt, completion)

    def counted_begin(block: Any) -> None:
        clock.spend(CALL)
        begin(block)

    with ExitStack() as patches:
        for owner, name, replacement in (
            (threads, "time", _REAL),
            (threads, "_LOOKS", LOOKS),
            (Raising, "__enter__", counted_begin),
            (SamplerCode, "__call__", counted_call),
            (EngineCode, "session", counted_session),
            (EngineCode, "rows_along", counted_rows),
            *((time, name, clock.read) for name in CLOCKS),
            (spec_oracle.clock, "waited", lambda: 0.0),
        ):
            patches.enter_context(mock.patch.object(owner, name, replacement))
        yield clock
