"""How far a long run is: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

EVERY = 5.0
"""Seconds between two lines on the same work, where there is no bar."""


@contextmanager
def showing_progress(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield ``progress(what, done, of)``, ``of`` 0 if unknown: a line for all that is new, and how far it is.

    On a terminal that is a bar with the time left; elsewhere the same line again, now and then.
    """
    shown = console or Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal)
    task = bar.add_task("", total=None)
    later = Timer(PATIENCE, bar.start)
    later.start()
    last, at = "", 0.0

    def progress(what: str, done: int, of: int) -> None:
        nonlocal last, at
        bar.update(task, completed=done, total=of or None)
        now, line = time.monotonic(), f"[{done}/{of}] {what}" if of else f"[{done}] {what}"
        if what == last:
            if shown.is_terminal or now - at < EVERY:
                return
            left = bar.tasks[0].time_remaining
            line += "" if left is None else f", {left:.0f} s left"
        last, at = what, now
        shown.print(line, markup=False, highlight=False, soft_wrap=True)

    try:
        yield progress
    finally:
        later.cancel()
        later.join()
        bar.stop()
