"""``spec-oracle sweep``: one task over every combination of its axes, resumable."""

from argparse import Namespace
from pathlib import Path

from spec_oracle.commands.options import FAILED, OK, Command, file_to_write, jobs, progress, value


def run(options: Namespace) -> int:
    """Compute what the output lacks of the plan."""
    from spec_oracle.report.terminal import showing_progress
    from spec_oracle.sweeps import Plan
    from spec_oracle.sweeps import run as run_plan

    plan = Plan.load(options.plan)
    output = options.output or options.plan.with_suffix(".jsonl")
    try:
        with showing_progress() as tell:
            refused = run_plan(plan, output, jobs=options.jobs, progress=tell)
    except KeyboardInterrupt:
        progress(f"{output}: what is computed is kept; the same command goes on")
        raise
    progress(f"{output}: {len(plan)} cells" + f', {refused} of them refused: see "error"' * bool(refused))
    return FAILED if refused else OK


SWEEP = Command(
    run,
    "Run many audits or measurements from a plan; resumable.",
    "spec-oracle sweep plan.toml --output results.jsonl",
    options={
        "the plan": [
            value("plan", "PLAN.toml", "task and axes, see docs/guide/sweeps.md", Path),
            value("--output", "FILE", "JSON lines; default: PLAN.jsonl", file_to_write),
        ],
        "where it runs": [jobs("combinations to compute")],
    },
)
