"""Reports and distributions in notebooks: a line, and a small table in HTML."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import SupportsFloat


def number(value: SupportsFloat | None) -> str:
    """Return a number in six digits; rationals as they are, a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def table(above: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a line and a table in HTML; text is escaped."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join([line(head, "th"), *(line(row, "td") for row in rows)])
    return f"<p>{escape(above)}</p><table>{body}</table>"
