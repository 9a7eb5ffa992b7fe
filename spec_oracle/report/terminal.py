"""Reports on a terminal: colours, rows that are cut and not broken, and how far a long run is.

Where there is no terminal, text stays as it is: plain.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.theme import Theme

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

EVERY = 5.0
"""Seconds between two lines on the same work, where there is no bar."""

_THEME = Theme({"good": "green", "bad": "bold red", "open": "yellow"})


class _Verdicts(RegexHighlighter):
    highlights = (
        r"(?<![\w-])(?P<good>lossless|passed)(?!\w)",
        r"(?<![\w-])(?P<bad>lossy|failed)(?!\w)",
        r"(?P<open>declared-lossy|inconclusive|not run)",
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
            shown.print(
                "\n" * (number > 0),
                verdicts(part),
                no_wrap=is_table,
                overflow="ellipsis" if is_table else None,
                sep="",
            )


@contextmanager
def told(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield ``tell(what, done, of)``, 0 for what nobody knows: a line for all that is new, and how far it is.

    On a terminal that is a bar with the time left; elsewhere the same line again, now and then.
    """
    shown = console or Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal)
    task = bar.add_task("", total=None)
    later = Timer(PATIENCE, bar.start)
    later.start()
    last, at = "", 0.0

    def tell(what: str, done: int, of: int) -> None:
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
        yield tell
    finally:
        later.cancel()
        later.join()
        bar.stop()
