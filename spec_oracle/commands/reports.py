"""``spec-oracle explain`` and ``diff``: what a check asks, and what changed between two reports."""

from argparse import Namespace
from pathlib import Path

from spec_oracle.commands.options import OK, Command, emit, report_options, value, write_report


def run_explain(options: Namespace) -> int:
    """Write the page of a check, or a line on every check."""
    from spec_oracle.report.explain import check_page, list_of_checks

    page = check_page(options.check).replace("](../../", "](docs/") if options.check else list_of_checks()
    emit(options, page)
    return OK


def run_diff(options: Namespace) -> int:
    """Write what changed; return 1 if anything got worse."""
    from spec_oracle.gate.difference import difference
    from spec_oracle.report.difference import FORMATS

    found = difference(options.old, options.new)
    write_report(options, FORMATS, found)
    return found.exit_code


EXPLAIN = Command(
    run_explain,
    "What does a check ask, how does it know, and what did it find in the wild?",
    "spec-oracle explain joint",
    options={
        "the check": [value("check", "CHECK", "default: a line on every check", nargs="?")],
        "the report": report_options("markdown"),
    },
)

DIFF = Command(
    run_diff,
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
