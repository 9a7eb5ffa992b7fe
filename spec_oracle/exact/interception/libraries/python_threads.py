"""Threads that foreign code starts while it is traced: their draws belong to the run, too."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from unittest import mock

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.interception.run import RunOverError, active_run, thread_number


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

    with mock.patch.object(threading.Thread, "start", start):
        yield


def _traced(
    body: Callable[[], None], number: int, surroundings: Callable[[], AbstractContextManager[None]]
) -> None:
    thread_number.set(number)
    with suppress(RunOverError), surroundings():
        try:
            body()
        except SpecOracleError:
            if not number:
                raise
