"""``spec-oracle diff``: what changed between two reports."""

from pathlib import Path
from typing import Any

from spec_oracle.commands.options import add_command, add_output, emit


def add_diff(commands: Any) -> None:
    """Add ``diff`` to the parser."""
    command = add_command(commands, "diff", _diff, "What changed between two reports of audits, in JSON.")
    command.add_argument("old", type=Path, metavar="OLD", help="a file of audit --format json")
    command.add_argument("new", type=Path, metavar="NEW", help="exit code 1 if anything is worse in it")
    add_output(command, ("text", "markdown", "json"))


def _diff(options: Any) -> int:
    from spec_oracle.gate.difference import difference
    from spec_oracle.report.difference import FORMATS

    found = difference(options.old, options.new)
    emit(options, FORMATS[options.format](found))
    return found.exit_code
