"""All multi-path rules against the K-path optimum, on toys with fixed seeds.

    python -m lab.studies.multipath --output docs/evidence/study-multipath.md --plots docs/evidence/

Some minutes on a core; the same figures every time.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from lab.studies.document import document
from lab.studies.figures import draw_all
from lab.studies.measure import CarriedRecord, Record
from lab.studies.toys import Grid, Toy, keys
from spec_oracle.arrays import Json
from spec_oracle.commands.options import add, jobs
from spec_oracle.report.terminal import showing_progress
from spec_oracle.sweeps import Plan, rows_for

Study: TypeAlias = tuple[list[Record], list[Record], list[CarriedRecord]]


def plan(grid: Grid) -> Plan:
    """Return the sweep over all toys of ``grid``."""
    toys: list[list[Json]] = [list(key) for key in keys(grid)]
    return Plan("lab.studies.measure:cell", {"toy": toys, "max_tuples": [grid.max_tuples]})


def study(grid: Grid, rows: Iterable[dict[str, Any]]) -> Study:
    """Return the records of the grid itself, of its larger toys, and of carry-over."""
    records: list[Record] = []
    larger: list[Record] = []
    carried: list[CarriedRecord] = []
    for row in rows:
        toy = Toy.at(row["toy"])
        (larger if toy.size in grid.larger else records).append(Record(toy, **row["record"]))
        if row["carried"]:
            carried.append(CarriedRecord(**row["carried"]))
    return records, larger, carried


def main() -> None:
    """Write the document and its plots."""
    parser = argparse.ArgumentParser(description="All multi-path rules against the K-path optimum.")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--plots", type=Path, required=True, help="folder for the plots")
    parser.add_argument("--max-tuples", type=int, default=Grid.max_tuples, help="bound on V^(L K)")
    add(parser, jobs("toys"))
    arguments = parser.parse_args()
    grid = Grid(max_tuples=arguments.max_tuples)
    with showing_progress() as tell, rows_for(arguments.output, plan(grid), arguments.jobs, tell) as rows:
        records, larger, carried = study(grid, rows)
        plots = draw_all(records, carried, arguments.plots)
        text = document(grid, records, larger, carried, plots)
        arguments.output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
