"""Every engine that is available here, audited as by ``spec-oracle audit``: the page of engines.

python -m lab.studies.engines --output docs/evidence/engines-results.md        # needs `make engines`
"""

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from spec_oracle.audit import AuditOptions
from spec_oracle.audit.isolation import audit_apart
from spec_oracle.audit.registry import engine_availability
from spec_oracle.audit.subjects import quickness
from spec_oracle.commands.options import add, jobs, positive_number
from spec_oracle.report.audit_markdown import cells, made_by, section, table_of
from spec_oracle.report.audit_text import alarm_text, verdicts_text
from spec_oracle.report.terminal import showing_progress
from spec_oracle.sweeps import Plan, rows_for

TITLE = "Released samplers and engines: results"

BUDGET = 60.0
"""Seconds for each check that draws: enough to decide the law of interpreted kernels, too."""


def plan(names: Sequence[str], **options: Any) -> Plan:
    """Return the sweep over the named engines, with fields of `AuditOptions`.

    Slow ones come first, neighbours in the list apart: releases of one engine wait for the same things.
    """
    fixed = {name: [value] for name, value in {"among": len(names), **options}.items()}
    slow, quick = ([name for name in names if (quickness(name) == 1) is quick] for quick in (False, True))
    from_both_ends = chain.from_iterable(zip(slow, reversed(slow), strict=True))
    return Plan(
        "lab.studies.engines:cell", {"subject": [*islice(from_both_ends, len(slow)), *quick], **fixed}
    )


def cell(*, seed: int, subject: str, among: int, **options: Any) -> dict[str, Any]:
    """Audit one engine in a process of its own; return its part of the page."""
    del seed  # the page shows what the command line finds with its own
    chosen = AuditOptions(counterexamples=Path("counterexamples"), **options)
    (found,) = audit_apart([subject], chosen, among=among).subjects
    return {
        "verdict": found.verdict.value,
        "is_drawn": any(check.measured.alpha > 0 for check in found.checks),
        "cells": cells(found),
        "section": section(found),
    }


audited = partial(rows_for, backend="threading")
"""Rows of a plan: every cell starts a process of its own already."""


def page(names: Sequence[str], rows: Sequence[dict[str, Any]], command: str) -> str:
    """Return the page, with the engines in the order of ``names``."""
    listed = sorted(rows, key=lambda row: names.index(row["subject"]))
    alarm = f"; {alarm_text(AuditOptions.alpha)}" if any(row["is_drawn"] for row in listed) else ""
    counts = f"{verdicts_text(row['verdict'] for row in listed)}{alarm}; seed {AuditOptions.seed}"
    table, sections = table_of([row["cells"] for row in listed]), [row["section"] for row in listed]
    return "\n\n".join([f"# {TITLE}", made_by(command), counts, table, *sections]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Audit, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/evidence/engines-results.md"))
    parser.add_argument("--budget", type=positive_number, default=BUDGET, metavar="SECONDS")
    add(parser, jobs("engines to audit"))
    options = parser.parse_args(arguments)
    names, _ = engine_availability()
    sweep = plan(names, budget=options.budget)
    with showing_progress() as tell, audited(options.output, sweep, options.jobs, tell) as rows:
        command = f"python -m lab.studies.engines --budget {options.budget:g} --output {options.output}"
        options.output.write_text(page(names, rows, command), encoding="utf-8")


if __name__ == "__main__":
    main()
