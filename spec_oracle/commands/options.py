"""Shared by all commands: commands as data, types and groups of options, exit codes, output."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from spec_oracle.errors import InvalidInputError, unknown

if TYPE_CHECKING:
    from spec_oracle.audit import AuditReport

T = TypeVar("T")

OK, LOSSY, INCONCLUSIVE, FAILED = 0, 1, 2, 3
"""Exit codes: lossless, lossy, inconclusive or nothing tested, usage or internal error."""

Option: TypeAlias = tuple[tuple[str, ...], Mapping[str, Any]]
"""The arguments of ``ArgumentParser.add_argument``."""


class Parser(argparse.ArgumentParser):
    """Usage errors exit with 3; argparse's own 2 means inconclusive here."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; for an option that there is not, the error names the nearest."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            is_option = rest[0].startswith("-")
            known = [name for action in self._actions for name in action.option_strings] if is_option else []
            shown = unknown(rest[0].partition("=")[0], known, "option").partition(" known ones are")[0]
            self.error(shown.rstrip(";") if is_option else f"unexpected argument {rest[0]!r}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Report a usage error in one line, with the nearest choice for one that is none, and exit."""
        if found := re.fullmatch(r"argument (.+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            name, given, choices = found.groups()
            known = [choice.strip("' ") for choice in choices.split(",")]
            message = unknown(given, known, "" if name.isupper() else name.split("/")[-1])
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
    """Return ``--output``; for several formats, the first by default, ``--format`` and ``--report``, too."""
    output = value("--output", "FILE", "write to this file, not to stdout", file_to_write)
    if len(formats) == 1:
        return [output]
    suffixes = {suffix: form for suffix, form in SUFFIXES.items() if form in formats}

    def report_file(text: str) -> tuple[Path, str]:
        file = file_to_write(text)
        if file.suffix not in suffixes:
            raise argparse.ArgumentTypeError(f"{text}: {unknown(file.suffix, suffixes, 'suffix')}")
        return file, suffixes[file.suffix]

    also = f"write it to this file, too, as its suffix says: {', '.join(suffixes)}"
    return [
        value("--format", None, "", default=formats[0], choices=formats),
        output,
        several("--report", "FILE", also, report_file, dest="reports"),
    ]


SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".xml": "junit",
    ".md": "markdown",
    ".html": "html",
    ".csv": "csv",
    ".tex": "latex",
}
"""The formats of files, by their suffixes."""


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
    return whole_numbers(text, "token ids")


def whole_numbers(text: str, what: str = "whole numbers") -> tuple[int, ...]:
    """Read whole numbers joined by commas."""
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {what} joined by commas, got {text}") from None


AXES = ("vocabularies", "lengths", "batches", "paths", "layouts", "ids")


def axis_values(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Read the values of an axis of the shapes, such as ``lengths=1,2,4``."""
    axis, is_given, values = text.partition("=")
    if axis not in AXES or not is_given or not values:
        raise argparse.ArgumentTypeError(f"expected AXIS=VALUES, AXIS one of {', '.join(AXES)}; got {text}")
    return axis, tuple(values.split(",")) if axis in AXES[4:] else whole_numbers(values)


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


_MODELS = "smollm2 or a Hugging Face path, then :layers=N, :temperature=T, :dtype=D"
_SHORTLIST = "tokens kept after a context: the target's top k, or the top k of both"


def pair_options(*, depth: int = 3, num_paths: int | None = 2) -> tuple[Option, ...]:
    """Return the options that name two language models and size the tree of their likeliest tokens.

    ``depth`` and ``num_paths`` are defaults; with None there is no option for the number of draft paths.
    """
    paths = () if num_paths is None else (value("--num-paths", "K", "draft paths", positive, num_paths),)
    return (
        value("--target", "MODEL", _MODELS, default="smollm2"),
        value("--draft", "MODEL", "as --target", default="smollm2:layers=20"),
        value("--top-k", "V", "tokens kept", positive, 6),
        value("--depth", "L", "draft length", positive, depth),
        *paths,
        value("--temperature", "T", "of both models", float, 1.0),
        value("--shortlist", None, _SHORTLIST, default="target", choices=("target", "union")),
        value("--device", "DEVICE", "of both models", default="cpu"),
    )


PAIR = pair_options()
"""Two language models, and the tree of their likeliest tokens after a prompt."""


def pair_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `pair_options` by the names that `cut_instance` has for them."""
    names = ("target", "draft", "top_k", "depth", "num_paths", "temperature", "shortlist", "device")
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def require_files_or_prompts(options: argparse.Namespace, command: str) -> None:
    """Raise `InvalidInputError` unless there are either instance ``files`` or ``prompts``."""
    if (options.prompts is None) == (not options.files):
        raise InvalidInputError(f"{command}: expected either instance files or --prompts")


def prompts_of(path: Path) -> list[str]:
    """Return the lines of a prompt file that are not blank; raises `InvalidInputError` without any."""
    try:
        prompts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    if not prompts:
        raise InvalidInputError(f"{path}: no prompts; expected one a line")
    return prompts


def emit(options: argparse.Namespace, text: str) -> None:
    """Write the result to ``--output``, or to stdout."""
    if options.output is None:
        sys.stdout.write(text)
    else:
        _write("--output", options.output, text)


def write_report(
    options: argparse.Namespace,
    formats: Mapping[str, Callable[[T], str]],
    result: T,
    show: Callable[[str], None] | None = None,
) -> None:
    """Write a result as ``--format`` to ``--output`` or stdout, and to each file of ``--report``.

    ``show`` writes text to stdout, where another way than plain is wanted.
    """
    text = formats[options.format](result)
    if show is not None and options.output is None and options.format == "text":
        show(text)
    else:
        emit(options, text)
    for file, form in options.reports or ():
        _write("--report", file, formats[form](result))


def write_audit(options: argparse.Namespace, report: "AuditReport") -> int:
    """Write the report of an audit and what ran it; return its exit code."""
    from spec_oracle.report import AUDIT_FORMATS
    from spec_oracle.report.audit_text import audit_to_text
    from spec_oracle.report.terminal import show

    report = replace(report, command=options.command_line)
    formats: dict[str, Callable[[AuditReport], str]] = {**AUDIT_FORMATS}
    formats["text"] = partial(audit_to_text, verbose=options.verbose)
    write_report(options, formats, report, show)
    return report.exit_code


def _write(option: str, file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{option}: {error}; name a file that you may write to") from None


@contextmanager
def written_if_interrupted(write: Callable[[], None], results: Sized) -> Iterator[None]:
    """Write what was found before Ctrl-C or SIGTERM, and let the command end with it."""
    try:
        yield
    except KeyboardInterrupt:
        if results:
            write()
        raise


def progress(line: str) -> None:
    """Report to a person on stderr how far the command is."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
