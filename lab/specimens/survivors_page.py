"""Specimens that survive an audit at its defaults, as a table for two pages."""

from collections.abc import Iterable
from typing import Final

from lab.specimens.registry import survivors
from lab.specimens.specimen import Specimen
from spec_oracle.errors import InvalidInputError
from spec_oracle.report.table import markdown_table

BEGIN: Final = "<!-- survivors: python -m lab.specimens --survivors --output THIS_PAGE -->\n"
END: Final = "<!-- end of survivors -->\n"
"""The lines of a page between which the table stands."""

_HEAD: Final = ("specimen", "what goes wrong", "why nothing sees it", "found with")


def survivors_table(listed: Iterable[Specimen]) -> str:
    """Return a row for each of these specimens: name, defect, why it survives, and what finds it."""
    rows = [
        (f"`{one.name}`", one.defect, one.survives, f"`{one.found_with}`" if one.found_with else "no option")
        for one in listed
    ]
    return markdown_table(_HEAD, rows) + "\n"


def filled(page: str) -> str:
    """Return a page with today's table between its two lines; raises `InvalidInputError` without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InvalidInputError(f"--output: the page has no lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{begin}\n{survivors_table(survivors().values())}\n{end}{after}"
