"""Numbers as they are shown, and tables of them: plain text and Markdown."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any


def short(value: Any, digits: int = 4) -> str:
    """Return a number for a table, fractions as they are; a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, Fraction) and value.denominator < 10**6:
        return str(value)
    return f"{float(value):.{digits}g}"


def percent(share: Any, digits: int = 1) -> str:
    """Return a share in per cent; a dash where there is none."""
    return "-" if share is None else f"{100 * float(share):.{digits}f} %"


def plural(count: int, what: str) -> str:
    """Return a number of things."""
    return f"{count} {what}{'s' * (count != 1)}"


def plain(value: Any) -> Any:
    """Return a number for JSON: rationals as strings "a/b", floats as numbers, infinity as None."""
    if isinstance(value, Fraction):
        return str(value)
    if value is None:
        return None
    number = float(value)
    return number if number not in (float("inf"), float("-inf")) else None


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return an aligned table; columns in ``right`` are flush right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, rows)])


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; pipes in cells are escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])
