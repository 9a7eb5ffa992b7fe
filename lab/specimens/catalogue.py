"""The catalogue of defects: what went wrong in public code, by number. The entries are in ``catalogue.tsv``.

A number stands for one mechanism. Letters are families; N holds lossless code that was reported as lossy, L
what is lossy by design. `lab.specimens.catalogue_page` makes the page of it.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from spec_oracle.errors import InvalidInputError

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "A": "Acceptance",
        "B": "Residual and correction",
        "C": "Random numbers",
        "D": "Rows that are not the law",
        "E": "Positions, bonus, rollback, padding",
        "F": "Block verification",
        "G": "Trees and several drafts",
        "H": "Penalties, grammar, stopping",
        "S": "Shapes: sizes, number types, memory, ranges, places in a batch",
        "R": "Reports: log-probabilities beside a right text",
        "N": "Controls: reported as lossy, and lossless",
        "L": "Lossy by design",
    }
)
CONTROL = "control"
MUTANT = "mutant"
_ORIGINS = ("reported", "review", "ours")
_FIRST_TOKEN = ("yes", "depends", "no", "")


@dataclass(frozen=True)
class Entry:
    """One defect, or one control, of the catalogue.

    ``origin``: "reported" of code in use, found in "review" before a release, or "ours", a neighbour of such
    defects that completes its family. ``checks`` must see it, the most telling first; none may fail a
    control. ``first_token``: whether a test of the first emitted token does: "yes", "no" whatever its size,
    or it "depends". ``threads``: public threads, owner/repository/kind/number on GitHub, the report first.
    """

    number: str
    origin: str
    checks: tuple[str, ...]
    first_token: str
    threads: tuple[str, ...]
    mechanism: str

    def __post_init__(self) -> None:
        for name, known in (("origin", _ORIGINS), ("first_token", _FIRST_TOKEN)):
            if getattr(self, name) not in known:
                raise InvalidInputError(
                    f"{name}: {getattr(self, name)!r} of {self.number} is none of {known}"
                )
        if self.is_control == bool(self.checks):
            raise InvalidInputError(
                f"checks: {self.checks} of {self.number}; every entry but a control has some"
            )

    @property
    def is_control(self) -> bool:
        """Whether it is lossless."""
        return self.number.startswith("N")

    @property
    def links(self) -> tuple[str, ...]:
        """The addresses of the threads."""
        return tuple(f"https://github.com/{thread}" for thread in self.threads)


@cache
def catalogue() -> Mapping[str, Entry]:
    """Return all entries by number, in the order of the file."""
    text = files("lab.specimens").joinpath("catalogue.tsv").read_text("utf-8")
    found: dict[str, Entry] = {}
    for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE, strict=True):
        if row["number"] in found:
            raise InvalidInputError(f"number: {row['number']} is in the catalogue twice")
        checks, threads = tuple(row["checks"].split()), tuple(row["threads"].split())
        found[row["number"]] = Entry(
            row["number"], row["origin"], checks, row["first_token"], threads, row["mechanism"]
        )
    return MappingProxyType(found)


@cache
def known_checks() -> frozenset[str]:
    """Return the names of all checks that the catalogue asks for."""
    return frozenset(check for entry in catalogue().values() for check in entry.checks)
