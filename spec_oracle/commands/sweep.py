"""``spec-oracle sweep``: one task over every combination of its axes, resumable, here or on a cluster."""

from pathlib import Path
from typing import Any

from spec_oracle.commands.options import OK, add_command, add_jobs, progress


def add_sweep(commands: Any) -> None:
    """Add ``sweep`` to the parser."""
    command = add_command(
        commands, "sweep", _sweep, "Compute a task on every cell of a grid; goes on where it was cut off."
    )
    command.add_argument("plan", metavar="PLAN.toml", type=Path, help="task and axes, see docs/sweeps.md")
    command.add_argument(
        "--output", metavar="FILE", type=Path, help="JSON lines, or *.parquet; default: PLAN.jsonl"
    )
    add_jobs(command, "cells")
    command.add_argument("--backend", default="loky", metavar="NAME", help="of joblib: loky, dask, ray")
    command.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster")


def _sweep(options: Any) -> int:
    from spec_oracle.report.terminal import told
    from spec_oracle.sweeps import Plan, run

    plan = Plan.load(options.plan)
    output = options.output or options.plan.with_suffix(".jsonl")
    with told() as tell:
        run(
            plan,
            output,
            jobs=options.jobs,
            backend=options.backend,
            scheduler=options.scheduler,
            progress=tell,
        )
    progress(f"{output}: {len(plan)} cells")
    return OK
