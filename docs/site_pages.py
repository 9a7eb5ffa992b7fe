"""A hook of MkDocs: what the command line says of itself, in its page."""

import argparse
import re

from spec_oracle.audit.checks import CHECKS
from spec_oracle.cli import command_parser
from spec_oracle.report.table import markdown_table


def on_page_markdown(markdown, **_):
    """Fill in the lists of commands and checks where a page asks for them."""
    filled = {"commands": _commands, "checks": _checks}
    return re.sub(r"<!-- (commands|checks) -->", lambda found: filled[found[1]](), markdown)


def _commands():
    parser = command_parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return "\n\n".join(
        f"## {name}\n\n```\n{command.format_help()}```" for name, command in commands.choices.items()
    )


def _checks():
    rows = [(f"`{check.name}`", check.question, str(check.share)) for check in CHECKS.values()]
    return markdown_table(("check", "question", "share of the error rate"), rows)
