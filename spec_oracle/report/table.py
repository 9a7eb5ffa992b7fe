"""Format numbers and tables, and write results that are tables as text, Markdown, LaTeX, JSON and CSV."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import SupportsFloat, TypeVar

from spec_oracle.arrays import Json

T = TypeVar("T")


def short(value: SupportsFloat | None, digits: int = 4) -> str:
    """Return a number for a table, fractions as they are; a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, Fraction) and value.denominator < 10**6:
        return str(value)
    return f"{float(value):.{digits}g}"


def percent(share: SupportsFloat | None, digits: int = 1) -> str:
    """Return a share in per cent; a dash where there is none.

    >>> percent(0.0123), percent(-1e-16)
    ('1.2 %', '0.0 %')
    """
    # Adding zero takes the sign from a rounded "-0.0".
    return "-" if share is None else f"{round(100 * float(share), digits) + 0.0:.{digits}f} %"


def plural(count: int, what: str) -> str:
    """Return a number of things."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def plain(value: SupportsFloat | None) -> str | float | None:
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


def latex_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return a table of LaTeX with the rules of booktabs; special characters are escaped."""
    columns = "".join("r" if column in right else "l" for column in range(len(head)))

    def line(cells: Sequence[str]) -> str:
        return " & ".join(re.sub(r"([&%$#_{}])", r"\\\1", cell) for cell in cells) + r" \\"

    body = [r"\toprule", line(head), r"\midrule", *map(line, rows), r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}"])


@dataclass(frozen=True)
class Table:
    """A table with columns ``right`` flush right, and the lines above and below it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    above: str = ""
    below: str = ""

    def parts(self, how: str) -> list[str]:
        """Return the lines, and the table unless it is empty, as "text", "markdown" or "latex"."""
        table, mark = "", "% " * (how == "latex")
        if self.rows and how == "markdown":
            table = markdown_table(self.head, self.rows)
        elif self.rows:
            table = (latex_table if how == "latex" else text_table)(self.head, self.rows, right=self.right)
        said = [part and f"{mark}{part}" for part in (self.above, self.below)]
        return [part for part in (said[0], table, said[1]) if part]


def formats(
    tables: Callable[[T], Iterable[Table]], data: Callable[[T], Json], title: str = ""
) -> dict[str, Callable[[T], str]]:
    """Return functions that write a result as text, as Markdown under a ``title``, as LaTeX, JSON and CSV."""

    def written(result: T, how: str) -> str:
        parts = [part for table in tables(result) for part in table.parts(how)]
        return "\n\n".join([f"# {title}", *parts] if how == "markdown" and title else parts) + "\n"

    return {
        **{how: partial(written, how=how) for how in ("text", "markdown", "latex")},
        "json": lambda result: json.dumps(data(result), indent=1) + "\n",
        "csv": lambda result: _csv(data(result)),
    }


def _csv(rows: Json) -> str:
    """Return rows of data as CSV; a list has a column for each place, an object is left out."""
    flat = []
    for row in rows if isinstance(rows, list) else ():
        cells: dict[str, Json] = {}
        for name, value in row.items():
            if isinstance(value, list):
                cells |= {f"{name}_{place}": one for place, one in enumerate(value)}
            elif not isinstance(value, dict):
                cells[name] = value
        flat.append(cells)
    text = io.StringIO()
    columns = list(dict.fromkeys(name for cells in flat for name in cells))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()
