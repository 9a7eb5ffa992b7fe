"""Reports on a terminal: colours, rows that are cut and not broken, and how far a long run is.

Where there is no terminal, text stays as it is: plain.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.theme import Theme

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

_THEME = Theme({"good": "green", "bad": "bold red", "open": "yellow"})


class _Verdicts(RegexHighlighter):
    highlights = (
        r"(?<![\w-])(?P<good>lossless|passed)(?!\w)",
        r"(?<![\w-])(?P<bad>lossy|failed)(?!\w)",
        r"(?P<open>declared-lossy|inconclusive|not run)",
    )


def show(text: str, console: Console | None = None) -> None:
    """Write a report to stdout, or to a console: a table up to the first empty line, and what follows it."""
    shown = console or Console()
    if not shown.is_terminal:
        sys.stdout.write(text)
        return
    with shown.use_theme(_THEME):
        table, _, rest = text.partition("\n\n")
        verdicts = _Verdicts()
        shown.print(verdicts(table), no_wrap=True, overflow="ellipsis")
        shown.print()
        shown.print(verdicts(rest), end="")


@contextmanager
def told(
    total: int, plain: Callable[[str], None], console: Console | None = None
) -> Iterator[Callable[[str], None]]:
    """Yield what tells that one of ``total`` pieces of work is done: a bar with the time left, or lines."""
    shown = console or Console(stderr=True)
    if not shown.is_terminal:
        yield plain
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=shown, transient=True)
    task = bar.add_task("", total=total)
    later = Timer(PATIENCE, bar.start)
    later.start()

    def tell(line: str) -> None:
        shown.print(line, markup=False, highlight=False)
        bar.advance(task)

    try:
        yield tell
    finally:
        later.cancel()
        later.join()
        bar.stop()
