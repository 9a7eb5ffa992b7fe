"""Write reports to a terminal: with colours, and rows cut at its width; elsewhere the plain text."""

import re
import sys

from rich.console import Console, OverflowMethod
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
