"""Threads that foreign code starts while it is traced: their draws belong to the run, too."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.interception.libraries import replaced
from spec_oracle.exact.interception.run import RunOverError, active_run, thread_number
from spec_oracle.threads import interrupt_soon


@contextmanager
def traced_threads(surroundings: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Let threads started inside know the run or the source of numbers, and work in ``surroundings``.

    A run that has failed ends them silently: its failure is on record.
    """
    really_start = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        run = active_run.get()
        if run is not None:
            run.threads += 1
        body = partial(_traced, thread.run, run.threads if run else 0, surroundings)
        thread.run = partial(copy_context().run, body)  # type: ignore[method-assign]
        really_start(thread)

    with replaced(threading.Thread, start=start):
        yield


def _traced(
    body: Callable[[], None], number: int, surroundings: Callable[[], AbstractContextManager[None]]
) -> None:
    thread_number.set(number)
    run = active_run.get()
    with suppress(RunOverError), surroundings():
        try:
            body()
        except SpecOracleError:
            if not number:
                raise
    if run is not None and (run.is_over or run.failure is not None):
        # The main thread may wait for what this one would have gone on to do.
        interrupt_soon(lambda: RunOverError() if active_run.get() is run else None)
