"""How far a long run is: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer
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

EVERY = 15.0
"""Seconds without a line after which one says what runs, where there is no bar."""


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

    There, a line says what runs whenever there was none for `EVERY` seconds.
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
    started = at = time.monotonic()
    last, count, doing = "", "", ""

    def show(line: str) -> None:
        nonlocal at
        at = time.monotonic()
        shown.print(line.strip(), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def progress(what: str, done: int, of: int, *, step: bool = False, now: str = "") -> None:
        nonlocal last, count, doing
        bar.update(task, completed=done, total=of or None, description=now)
        count, doing = f"[{done}/{of}]" if of else f"[{done}]" if done else "", now
        if what and what != last and not (step and shown.is_terminal):
            last = what
            show(f"{count} {what}")

    def repeat() -> None:
        while not ended.wait(EVERY / 10):
            if time.monotonic() - at >= EVERY:
                left = bar.tasks[0].time_remaining
                time_left = f"{left:.0f} s left" if left else f"{time.monotonic() - started:.0f} s so far"
                show(f"{count} {doing or ', '.join(filter(None, (last, time_left)))}")

    ended, repeating = Event(), Thread(target=repeat, daemon=True, name="spec-oracle progress")
    if not shown.is_terminal:
        repeating.start()
    try:
        yield progress
    finally:
        later.cancel()
        later.join()
        bar.stop()
        ended.set()
        if repeating.is_alive():
            repeating.join()
