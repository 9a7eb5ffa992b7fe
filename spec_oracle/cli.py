"""The command line: ``spec-oracle audit | init | audit-server | explain | diff | ...``."""

import codecs
import os
import shlex
import signal
import socket
import sys
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from spec_oracle.installed import ForeignVerifiersError, require_own_verifiers, tool_version

INCOMPLETE, FAILED = 2, 3

GRACE = 9.0
"""Seconds after Ctrl-C or SIGTERM until the process ends itself, whatever runs in it."""

COMMANDS = {
    "init": "spec_oracle.commands.init:INIT",
    "audit": "spec_oracle.commands.audit:AUDIT",
    "audit-server": "spec_oracle.servers.audit_server:AUDIT_SERVER",
    "audit-transcripts": "spec_oracle.servers.recorded.audit_transcripts:AUDIT_TRANSCRIPTS",
    "explain": "spec_oracle.commands.reports:EXPLAIN",
    "diff": "spec_oracle.commands.reports:DIFF",
    "acceptance": "spec_oracle.acceptance.command:ACCEPTANCE",
    "efficiency": "spec_oracle.commands.efficiency:EFFICIENCY",
    "optimum": "spec_oracle.commands.efficiency:OPTIMUM",
    "instance": "spec_oracle.commands.instances:INSTANCE",
    "sweep": "spec_oracle.commands.sweep:SWEEP",
}
"""Where a command is, by its name: a module, and a `Command` in it."""

EXAMPLES = """\
examples:
  spec-oracle init my_module:verify        # write an adapter, a configuration and a test for a sampler
  spec-oracle audit my_module:verify       # a sampler of yours: is it lossless?
  spec-oracle explain joint                # what a check asks
  spec-oracle COMMAND --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. Errors are one line on stderr and exit code 3."""
    try:
        require_own_verifiers()
    except ForeignVerifiersError as error:
        sys.stderr.write(f"spec-oracle: {error}\n")
        return FAILED
    codecs.register_error("spec-oracle", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="spec-oracle")
    return run_command(command_parser, arguments)


_ASCII = {"✓": "+", "✗": "x", "–": "-", "—": "-", "…": "..."}


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that a terminal lacks: ours by different marks in ASCII, others by "?"."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in lacking), error.end


def run_command(parser_of: Callable[[str], ArgumentParser], arguments: Sequence[str] | None = None) -> int:
    """Call the ``run`` that a parser sets by default; return its exit code, or 3 after an error.

    ``parser_of`` returns the parser, and is called with the first argument.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = parser_of(given[0] if given else "")
    if not given:
        sys.stderr.write(parser.format_help())
        return FAILED
    options = parser.parse_args(given)
    for name, values in vars(options).items():
        if isinstance(values, list):  # what is given twice counts once
            setattr(options, name, list(dict.fromkeys(values)))
    options.command_line = shlex.join([*parser.prog.split(), *given])
    from spec_oracle.errors import SpecOracleError

    try:
        with ending_soon(parser.prog):
            code: int = options.run(options)
    except KeyboardInterrupt:
        sys.stderr.write(f"{parser.prog}: interrupted\n")
        return INCOMPLETE
    except SpecOracleError as error:
        sys.stderr.write(f"{parser.prog}: {', '.join((str(error), *getattr(error, '__notes__', ())))}\n")
        return FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if "SPEC_ORACLE_TRACEBACK" in os.environ:
            raise
        sys.stderr.write(
            f"{parser.prog}: internal error: {type(error).__name__}: {error} "
            "(set SPEC_ORACLE_TRACEBACK=1 to see where)\n"
        )
        return FAILED
    return code


@contextmanager
def ending_soon(prog: str) -> Iterator[None]:
    """Let SIGTERM interrupt the block as Ctrl-C does, and end the process `GRACE` seconds after either.

    A thread waits for the signals: compiled code in the main thread may keep it from hearing them. Nothing
    changes outside the main thread, which alone may set what hears signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end_in_time() -> None:
        while number := heard.recv(1):
            if number[0] in (signal.SIGINT, signal.SIGTERM) and not is_over.wait(GRACE):
                message = f"{prog}: interrupted; it did not end in {GRACE:g} s, and what it learnt is lost\n"
                os.write(2, message.encode())
                os._exit(INCOMPLETE)

    heard, signals = socket.socketpair()
    signals.setblocking(False)
    is_over, waiting = threading.Event(), threading.Thread(target=end_in_time, daemon=True)
    before = signal.signal(signal.SIGTERM, _interrupt), signal.set_wakeup_fd(signals.fileno())
    waiting.start()
    try:
        yield
    finally:
        is_over.set()
        signal.signal(signal.SIGTERM, before[0])
        signal.set_wakeup_fd(before[1])
        signals.close()
        waiting.join()
        heard.close()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def command_parser(called: str = "") -> ArgumentParser:
    """Return the parser of the command that is called; of all commands, where that is none of them."""
    # Imported only now: `verifiers` is known to be ours.
    from spec_oracle.commands.options import Parser

    parser = Parser(
        prog="spec-oracle",
        description="Exact and statistical checks of speculative decoding.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"spec-oracle {tool_version()}")
    commands = parser.add_subparsers(required=True, title="commands", metavar="COMMAND", parser_class=Parser)
    for name in [called] if called in COMMANDS else COMMANDS:
        module, _, command = COMMANDS[name].partition(":")
        getattr(import_module(module), command).add_to(commands, name)
    return parser


if __name__ == "__main__":
    sys.exit(main())
