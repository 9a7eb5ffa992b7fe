"""What the commands share: commands as data, types and groups of options, exit codes, output."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from spec_oracle.errors import InvalidInputError

OK, LOSSY, INCONCLUSIVE, FAILED = 0, 1, 2, 3
"""Exit codes: lossless, lossy, inconclusive or nothing tested, usage or internal error."""

Option: TypeAlias = tuple[tuple[str, ...], Mapping[str, Any]]
"""The arguments of ``ArgumentParser.add_argument``."""


class Parser(argparse.ArgumentParser):
    """Usage errors exit with 3; argparse's own 2 means inconclusive here."""

    def error(self, message: str) -> NoReturn:
        """Report a usage error in one line and exit."""
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        raise SystemExit(FAILED)


@dataclass(frozen=True)
class Command:
    """A command: ``run`` takes its parsed options and returns the exit code; ``asks`` is its line of help.

    ``options`` by the title of their group; ``more`` is said below ``asks``; ``defaults`` replace those of
    the options; ``kinds`` are commands of a command.
    """

    run: Callable[[argparse.Namespace], int]
    asks: str
    example: str = ""
    more: str = ""
    options: Mapping[str, Sequence[Option]] = field(default_factory=dict)
    kinds: Mapping[str, "Command"] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)

    def add_to(self, commands: "argparse._SubParsersAction[Parser]", name: str) -> None:
        """Add the command to the commands of a parser."""
        parser = commands.add_parser(
            name,
            help=self.asks,
            description=f"{self.asks}\n\n{self.more}" if self.more else self.asks,
            epilog=self.example and f"example:\n  {self.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for title, options in self.options.items():
            add(parser.add_argument_group(title), *options)
        if self.kinds:
            kinds = parser.add_subparsers(required=True, title="kinds", metavar="KIND", parser_class=Parser)
            for kind, command in self.kinds.items():
                command.add_to(kinds, kind)
        parser.set_defaults(run=self.run, **self.defaults)


def value(
    name: str,
    metavar: str | None,
    what: str,
    kind: Callable[[str], object] = str,
    default: object = None,
    **how: object,
) -> Option:
    """Return an option with a value, or an argument; its help ends with the default, if there is one."""
    usual = f"{default:g}" if isinstance(default, float) else default
    shown = what if default in (None, "", []) else f"{what}; default: {usual}".removeprefix("; ")
    return (name,), {"metavar": metavar, "help": shown, "type": kind, "default": default, **how}


def several(name: str, metavar: str, what: str, kind: Callable[[str], object] = str, **how: object) -> Option:
    """Return an option that may be given several times; None where it is not given."""
    return value(name, metavar, f"{what}; repeatable", kind, action="append", **how)


def flag(name: str, what: str, *names: str) -> Option:
    """Return an option without a value."""
    return (*names, name), {"action": "store_true", "help": what}


def add(parser: "argparse._ActionsContainer", *options: Option) -> None:
    """Add options to a parser, or to a group of one."""
    for names, how in options:
        parser.add_argument(*names, **how)


def report_options(*formats: str) -> list[Option]:
    """Return ``--output``, and ``--format`` where there are several; the first is the default."""
    chosen = value("--format", None, "", default=formats[0], choices=formats)
    output = value("--output", "FILE", "write to this file, not to stdout", file_to_write)
    return [chosen, output] if len(formats) > 1 else [output]


def sizes(*, vocab: int, length: int, paths: int | None) -> list[Option]:
    """Return the sizes of toy instances, and the seed."""
    shown = "draft paths" + "; default: 1, or 2 where a verifier takes several" * (paths is None)
    return [
        value("--vocab-size", "V", "tokens of the vocabulary", positive, vocab),
        value("--draft-length", "L", "tokens of a draft path", positive, length),
        value("--num-paths", "K", shown, positive, paths),
        value("--seed", "SEED", "of all random numbers", int, 0),
    ]


def arithmetic() -> list[Option]:
    """Return the choice between rationals and array libraries."""
    arrays = value("--array", None, "", default="numpy", choices=("numpy", "torch"))
    return [flag("--exact", "compute in rationals"), arrays]


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def jobs(what: str) -> Option:
    """Return ``--jobs``: how many processes work on ``what`` at the same time."""
    shown = f"{what} at the same time; default: the number of cores; results do not depend on it"
    return ("--jobs",), {"type": positive, "default": cores(), "metavar": "N", "help": shown}


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def token_ids(text: str) -> tuple[int, ...]:
    """Read token ids joined by commas."""
    return tuple(int(token) for token in text.split(","))


AXES = ("vocabularies", "lengths", "batches", "paths", "layouts", "ids")


def axis_values(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Read the values of an axis of the shapes, such as ``lengths=1,2,4``."""
    axis, is_given, values = text.partition("=")
    if axis not in AXES or not is_given or not values:
        raise argparse.ArgumentTypeError(f"expected AXIS=VALUES, AXIS one of {', '.join(AXES)}; got {text}")
    return axis, tuple(values.split(",") if axis in AXES[4:] else map(int, values.split(",")))


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


def file_to_write(text: str) -> Path:
    """Read the path of a file that can be written, so that no result is lost in the end."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise argparse.ArgumentTypeError(f"{text}: {why}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text}: cannot be written")
    return path


def emit(options: argparse.Namespace, text: str) -> None:
    """Write the result to ``--output``, or to stdout."""
    if options.output is None:
        sys.stdout.write(text)
        return
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"--output: {error}; name a file that you may write to") from None


def progress(line: str) -> None:
    """Report to a person on stderr how far the command is."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
