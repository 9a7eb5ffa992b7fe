"""Reports on a terminal: colours, and rows that are cut and not broken; elsewhere the text as it is."""

import sys
from typing import Any

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme

_THEME = Theme({"good": "green", "bad": "bold red", "open": "yellow"})


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
            cut: Any = {"no_wrap": is_table, "overflow": "ellipsis" if is_table else None}
            shown.print("\n" * (number > 0), verdicts(part), sep="", **cut)
