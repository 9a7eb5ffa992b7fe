"""How far a long run is: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

EVERY = 5.0
"""Seconds between two lines on the same work, where there is no bar."""


class Tell(Protocol):
    """Told how far a run is: ``done`` parts ``of`` all (0 if unknown), and ``what`` is done or in progress.

    What is new has a line of its own; on a terminal a ``step`` of a part has none, since the bar shows it
    beside what runs ``now``.
    """

    def __call__(self, what: str, done: int, of: int, *, step: bool = False, now: str = "") -> None:
        """Tell."""
        ...


@contextmanager
def showing_progress(console: Console | None = None) -> Iterator[Tell]:
    """Yield what shows progress: on a terminal a bar with the time left, elsewhere lines.

    There, what stays the same is told again now and then.
    """
    shown = console or Console(stderr=True)
    columns = (
        *(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()),
        TextColumn("{task.description}", markup=False),
    )
    bar = Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal)
    task = bar.add_task("", total=None)
    later = Timer(PATIENCE, bar.start)
    later.start()
    last, at = "", 0.0

    def progress(what: str, done: int, of: int, *, step: bool = False, now: str = "") -> None:
        nonlocal last, at
        bar.update(task, completed=done, total=of or None, description=now)
        if not what or (step and shown.is_terminal):
            return
        told, line = time.monotonic(), f"[{done}/{of}] {what}" if of else f"[{done}] {what}"
        if what == last:
            if shown.is_terminal or told - at < EVERY:
                return
            left = bar.tasks[0].time_remaining
            line += f", {now}" if now else "" if left is None else f", {left:.0f} s left"
        last, at = what, told
        shown.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)

    try:
        yield progress
    finally:
        later.cancel()
        later.join()
        bar.stop()
