"""All multi-path rules against the K-path optimum, on toys with fixed seeds.

    python -m studies.multipath --output docs/study-multipath.md --plots docs/

One core, a few minutes; the same figures every time.
"""

import argparse
import sys
from pathlib import Path
from typing import TypeAlias

from studies.document import document
from studies.figures import draw_all, figure_context
from studies.measure import (
    CarriedRecord,
    Record,
    carries,
    measured,
    measured_by_nodes,
    measured_with_carry,
)
from studies.toys import Grid, toys, toys_of

Study: TypeAlias = tuple[list[Record], list[Record], list[CarriedRecord]]


def run(grid: Grid) -> Study:
    """Measure all toys of ``grid``, and the larger ones."""
    chosen = list(toys(grid))
    return (
        [measured(toy) for toy in chosen],
        [
            measured(toy) if toy.num_tuples <= grid.max_tuples else measured_by_nodes(toy)
            for size in grid.larger
            for toy in toys_of(size, grid.qualities)
        ],
        [measured_with_carry(toy) for toy in chosen if carries(toy)],
    )


def main() -> None:
    """Write the document and its plots."""
    parser = argparse.ArgumentParser(description="All multi-path rules against the K-path optimum.")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--plots", type=Path, required=True, help="folder for the plots")
    parser.add_argument("--max-tuples", type=int, default=Grid.max_tuples, help="bound on V^(L K)")
    arguments = parser.parse_args()
    grid = Grid(max_tuples=arguments.max_tuples)
    records, larger, carried = run(grid)
    with figure_context():
        plots = draw_all(records, carried, arguments.plots)
    text = document(grid, records, larger, carried, plots)
    arguments.output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
