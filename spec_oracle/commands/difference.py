"""``spec-oracle diff``: what changed between two reports."""

from argparse import Namespace
from pathlib import Path

from spec_oracle.commands.options import Command, report_options, value, write_report


def run(options: Namespace) -> int:
    """Write what changed; return 1 if anything got worse."""
    from spec_oracle.gate.difference import difference
    from spec_oracle.report.difference import FORMATS

    found = difference(options.old, options.new)
    write_report(options, FORMATS, found)
    return found.exit_code


DIFF = Command(
    run,
    "What changed between two reports of audits?",
    "spec-oracle diff main.json branch.json --format markdown",
    options={
        "reports": [
            value("old", "OLD", "a file of audit --format json", Path),
            value("new", "NEW", "another; exit code 1 if anything got worse", Path),
        ],
        "the report": report_options("text", "markdown", "json"),
    },
)
