"""Threads that foreign code starts or uses while it is traced: their draws belong to the run, too.

So do the tasks of pools, whose threads may be older than the run. They are done in the order in which they
were submitted, one after the other, so that their decisions have an order. Other older threads know no run:
`spec_oracle.exact.interception.run.Guest`.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.interception.libraries import replaced
from spec_oracle.exact.interception.run import RunOverError, active_run, thread_number
from spec_oracle.threads import interrupt_soon

P = ParamSpec("P")
R = TypeVar("R")

_TURN_SECONDS: Final = 1.0
"""How long a task waits for the one before it, which may wait for something itself."""


@contextmanager
def traced_threads(surroundings: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Let threads started inside know the run or the source of numbers, and work in ``surroundings``.

    A run that has failed ends them silently: its failure is on record.
    """
    really_start, really_submit = threading.Thread.start, ThreadPoolExecutor.submit
    tasks: list[Future[Any]] = []

    def start(thread: threading.Thread) -> None:
        body = partial(_traced, thread.run, _numbered(), surroundings)
        thread.run = partial(copy_context().run, body)  # type: ignore[method-assign]
        really_start(thread)

    def submit(
        pool: ThreadPoolExecutor, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[R]:
        before, number = tasks[-1:], _numbered()

        def body() -> R:
            is_late = wait(before, _TURN_SECONDS).not_done
            thread_number.set(number)
            run = active_run.get()
            if is_late and run is not None:
                run.is_disordered = True
            with surroundings():
                try:
                    return task(*args, **kwargs)
                finally:
                    if run is not None and run.helper is threading.current_thread():
                        run.helper = None

        with replaced(threading.Thread, start=really_start):  # a thread of the pool may outlive the run
            future = really_submit(pool, partial(copy_context().run, body))
        tasks[:] = [future]
        return future

    with replaced(threading.Thread, start=start), replaced(ThreadPoolExecutor, submit=submit):
        yield


def _numbered() -> int:
    """Return the number of one more thread of the run in progress, 0 where there is none."""
    run = active_run.get()
    if run is None:
        return 0
    run.threads += 1
    return run.threads


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
