"""All multi-path rules against the K-path optimum, on toys with fixed seeds.

    python -m studies.multipath --output docs/study-multipath.md --plots docs/

One core, less than ten minutes; the same figures every time.
"""

import argparse
import sys
from pathlib import Path

from studies.document import document
from studies.figures import draw_all, figure_context
from studies.measure import CarriedRecord, Record, carries, measured, measured_with_carry
from studies.toys import Grid, toys


def run(grid: Grid) -> tuple[list[Record], list[CarriedRecord]]:
    """Measure all toys of ``grid``."""
    chosen = list(toys(grid))
    return [measured(toy) for toy in chosen], [measured_with_carry(toy) for toy in chosen if carries(toy)]


def main() -> None:
    """Write the document and its plots."""
    parser = argparse.ArgumentParser(description="All multi-path rules against the K-path optimum.")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--plots", type=Path, required=True, help="folder for the plots")
    parser.add_argument("--max-tuples", type=int, default=Grid.max_tuples, help="bound on V^(L K)")
    arguments = parser.parse_args()
    grid = Grid(max_tuples=arguments.max_tuples)
    records, carried = run(grid)
    with figure_context():
        plots = draw_all(records, carried, arguments.plots)
    text = document(grid, records, carried, plots)
    arguments.output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
