"""What a terminal shows: how far a long run is, as a bar, and reports with colours, cut at its width.

Elsewhere a line is written now and then, and the plain text of a report.
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer
from typing import Protocol

from rich.console import Console, OverflowMethod
from rich.highlighter import RegexHighlighter
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.theme import Theme

_THEME = Theme({"good": "green", "bad": "bold red", "open": "yellow"})

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

EVERY = 15.0
"""Seconds without a line after which one says what runs, where there is no bar."""


class _Verdicts(RegexHighlighter):
    highlights = (
        r"(?<![\w-])(?P<good>lossless|passed|✓)(?!\w)",
        r"(?<![\w-])(?P<bad>lossy|broken|failed|✗)(?!\w)",
        r"(?P<open>declared-lossy|inconclusive|not run|not tried)",
    )


def show(text: str, console: Console | None = None) -> None:
    """Write a report to stdout, or to a console; paragraphs ruled off under a heading are tables."""
    shown = console or Console()
    if not shown.is_terminal:
        sys.stdout.write(text)
        return
    with shown.use_theme(_THEME):
        verdicts = _Verdicts()
        for number, part in enumerate(text.removesuffix("\n").split("\n\n")):
            is_table = part.partition("\n")[2].startswith("-")
            cut: OverflowMethod | None = "ellipsis" if is_table else None
            fitting = "\n\n".join(split_table(part, shown.width)) if is_table else part
            shown.print("\n" * (number > 0), verdicts(fitting), sep="", no_wrap=is_table, overflow=cut)


def split_table(table: str, width: int) -> list[str]:
    """Return a table that is ruled off, as tables that fit, each with the first column and some others."""
    head, rule, *rows = table.split("\n")
    spans = [match.span() for match in re.finditer("-+", rule)]
    groups: list[list[tuple[int, int]]] = [[]]
    for span in spans[1:]:
        taken = sum(end - start + 2 for start, end in (spans[0], *groups[-1], span)) - 2
        is_too_wide = spans[0][1] + 2 + span[1] - span[0] > width  # alone, too: it is cut
        if taken > width and groups[-1] and not is_too_wide:
            groups.append([])
        groups[-1].append(span)
    if len(groups) == 1:
        return [table]

    def cut(line: str, group: list[tuple[int, int]]) -> str:
        cells = (line[start:end].ljust(end - start) for start, end in (spans[0], *group))
        return "  ".join(cells).rstrip()

    return ["\n".join(cut(line, group) for line in (head, rule, *rows)) for group in groups]


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
        if bar.live.is_started:  # else older versions of rich write an empty line
            bar.stop()
        ended.set()
        if repeating.is_alive():
            repeating.join()
