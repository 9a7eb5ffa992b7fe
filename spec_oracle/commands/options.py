"""What the commands share: exit codes, option types, groups of options, output."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from spec_oracle.errors import InvalidInputError

OK, LOSSY, INCONCLUSIVE, FAILED = 0, 1, 2, 3
"""Exit codes: lossless, lossy, inconclusive or nothing tested, usage or internal error."""


class Parser(argparse.ArgumentParser):
    """Usage errors exit with 3; argparse's own 2 means inconclusive here."""

    def error(self, message: str) -> NoReturn:
        """Report a usage error in one line and exit."""
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        raise SystemExit(FAILED)


def add_command(
    commands: Any, name: str, run: Callable[[Any], int], help_line: str
) -> argparse.ArgumentParser:
    """Add a command that calls ``run`` with its parsed options."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=help_line, description=help_line)
    command.set_defaults(run=run)
    return command


def add_output(command: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    """Add ``--format`` (the first is the default) and ``--output``."""
    command.add_argument("--format", choices=formats, default=formats[0], help=f"default: {formats[0]}")
    command.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")


def add_files(command: argparse.ArgumentParser) -> None:
    """Add the instance files as arguments."""
    command.add_argument("files", nargs="+", metavar="FILE", type=Path, help="instance files")


def add_sizes(command: argparse.ArgumentParser, *, vocab: int, length: int, paths: int | None) -> None:
    """Add the sizes of toy instances and the seed."""
    command.add_argument("--vocab-size", type=positive, default=vocab, metavar="V", help=f"default: {vocab}")
    command.add_argument(
        "--draft-length", type=positive, default=length, metavar="L", help=f"default: {length}"
    )
    command.add_argument(
        "--num-paths", type=positive, default=paths, metavar="K", help=f"default: {paths or '1 or 2'}"
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")


def add_arithmetic(command: argparse.ArgumentParser) -> None:
    """Add the choice between rationals and array libraries."""
    command.add_argument("--exact", action="store_true", help="compute in rationals")
    command.add_argument("--array", choices=("numpy", "torch"), default="numpy", help="default: numpy")


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def add_jobs(command: argparse.ArgumentParser, what: str) -> None:
    """Add ``--jobs``: how many processes work on ``what`` at the same time."""
    command.add_argument(
        "--jobs",
        type=positive,
        default=cores(),
        metavar="N",
        help=f"{what} at the same time, default: the number of cores; results do not depend on it",
    )


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def prompt(text: str) -> tuple[int, ...]:
    """Read token ids joined by commas."""
    return tuple(int(token) for token in text.split(","))


def rate(text: str) -> float:
    """Read a probability between 0 and 1."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text}")
    return value


def positive_number(text: str) -> float:
    """Read a number above zero."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return value


def emit(options: Any, text: str) -> None:
    """Write the result to ``--output``, or to stdout."""
    if options.output is None:
        sys.stdout.write(text)
        return
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"--output: {error}") from None


def progress(line: str) -> None:
    """Tell a person on stderr how far the command is."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
