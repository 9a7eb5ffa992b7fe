"""Decide published claims by exact enumeration: ``python -m lab.claims``."""

import sys
from collections.abc import Sequence
from typing import Any

from spec_oracle.cli import run_command
from spec_oracle.commands.options import OK, Parser, add, progress, report_options, write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Decide every claim and write the page; return the exit code."""
    parser = Parser(
        prog="python -m lab.claims", description="Published claims, decided by exact enumeration."
    )
    add(parser, *report_options("markdown", "json"))
    parser.set_defaults(run=_claims)
    return run_command(lambda _: parser, arguments)


def _claims(options: Any) -> int:
    from lab.claims import decided_claims
    from lab.claims.report import FORMATS

    groups = {}
    for heading, decided in decided_claims():
        progress(heading)
        groups[heading] = decided
    write_report(options, FORMATS, groups)
    return OK


if __name__ == "__main__":
    sys.exit(main())
