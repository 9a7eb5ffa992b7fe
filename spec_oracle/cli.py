"""The command line: ``spec-oracle audit | audit-server | diff | efficiency | optimum | ...``."""

import os
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from spec_oracle.own_verifiers import ForeignVerifiersError, require_own_verifiers
from spec_oracle.version import tool_version

FAILED = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. Errors are one line on stderr and exit code 3."""
    try:
        require_own_verifiers()
    except ForeignVerifiersError as error:
        sys.stderr.write(f"spec-oracle: {error}\n")
        return FAILED
    return run_command(command_parser(), arguments)


def run_command(parser: ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Call a parser's default ``run`` with the parsed options; return its exit code, or 3 after an error."""
    from spec_oracle.errors import SpecOracleError

    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given)
    options.command_line = shlex.join([*parser.prog.split(), *given])
    try:
        code: int = options.run(options)
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


def command_parser() -> ArgumentParser:
    """Return the parser of all commands."""
    # Imported only now: `verifiers` is known to be ours.
    from spec_oracle.commands.audit import add_audit
    from spec_oracle.commands.audit_server import add_audit_server
    from spec_oracle.commands.difference import add_diff
    from spec_oracle.commands.efficiency import add_efficiency, add_optimum
    from spec_oracle.commands.instances import add_instance
    from spec_oracle.commands.options import Parser
    from spec_oracle.commands.sweep import add_sweep

    parser = Parser(prog="spec-oracle", description="Exact and statistical checks of speculative decoding.")
    parser.add_argument("--version", action="version", version=f"spec-oracle {tool_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    add_audit(commands)
    add_audit_server(commands)
    add_diff(commands)
    add_efficiency(commands)
    add_optimum(commands)
    add_instance(commands)
    add_sweep(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
