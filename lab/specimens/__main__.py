"""Run every check on every specimen and print which check finds which defect: ``python -m lab.specimens``."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.kill_matrix.matrix import kill_matrix
from lab.kill_matrix.report import FORMATS
from lab.specimens import catalogue_page, survivors_page
from lab.specimens.registry import specimens, survivors
from spec_oracle.cli import run_command
from spec_oracle.commands.options import OK, Parser, add, emit, jobs, rate, report_options, write_report
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.report.terminal import showing_progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the specimens that are named, or all; return 1 if a defect is not detected or a control fails."""
    parser = Parser(
        prog="python -m lab.specimens",
        description="Which check detects which known-faulty verifier, sampler or engine.",
    )
    parser.add_argument("names", nargs="*", metavar="SPECIMEN", help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--alpha", type=rate, default=1e-6, help="false-alarm rate of the matrix, default: 1e-6"
    )
    add(parser, jobs("specimens to run"))
    parser.add_argument(
        "--catalogue",
        action="store_true",
        help="run nothing: the catalogue of defects, which specimen plants which, as a page of Markdown",
    )
    parser.add_argument(
        "--survivors",
        action="store_true",
        help="run nothing: the specimens that audits do not find, as a table in the page of --output",
    )
    add(parser, *report_options("text", "json", "markdown", "html"))
    parser.set_defaults(run=_specimens)
    return run_command(lambda _: parser, arguments)


def _specimens(options: Any) -> int:
    for option in ("catalogue", "survivors"):
        if getattr(options, option) and options.names:
            raise InvalidInputError(f"specimen: {options.names[0]!r}; --{option} takes no names")
    if options.survivors:
        emit(options, _survivors(options.output))
        return OK
    if options.catalogue:
        emit(options, catalogue_page.to_markdown(options.command_line))
        return OK
    known = {**specimens(), **survivors()}
    for name in options.names:
        if name not in known:
            raise InvalidInputError(f"specimen: {unknown(name, known)}")
    chosen = [known[name] for name in options.names or known]
    with showing_progress() as tell:
        matrix = kill_matrix(chosen, tell, alpha=options.alpha, seed=options.seed, jobs=options.jobs)
    write_report(options, FORMATS, replace(matrix, command=options.command_line))
    return matrix.exit_code


def _survivors(page: Path | None) -> str:
    """Return the table of survivors, within the page that it belongs to if there is one."""
    if page is None:
        return survivors_page.survivors_table(survivors().values())
    return survivors_page.filled(page.read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
