"""``spec-oracle audit-server``: judge the text of a running server."""

import argparse
import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from spec_oracle.commands.options import (
    add_command,
    add_output,
    emit,
    positive,
    positive_number,
    rate,
)
from spec_oracle.errors import InvalidInputError

HELP = """\
Is the text of a running server, speculation on, the law of its own model?

A request for one token has nothing to speculate on: by such requests the server shows the law of plain
decoding. Texts of several tokens are drawn and compared with it, at a stated false-alarm rate and power.
"lossless": no defect of the stated total variation, but for a chance of 0.001 to miss one; it is no proof.
"lossy": the texts have another law, but for the false-alarm rate. Not covered: other prompts, filters,
temperatures and loads; longer texts; and whether the served model is the one that you mean.
"""


def add_audit_server(commands: Any) -> None:
    """Add ``audit-server`` to the parser."""
    command = add_command(
        commands, "audit-server", _audit_server, "Is the text of a running server the law of its own model?"
    )
    command.description = HELP
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("url", metavar="URL", help="of the server, with or without /v1 at its end")
    command.add_argument("--model", default="", help="default: the first that the server names")
    command.add_argument("--api", choices=("openai", "llama.cpp"), default="", help="default: found out")
    command.add_argument(
        "--prompt",
        action="append",
        default=[],
        help="text, or a JSON list of token ids; repeatable; default: three built-in ones",
    )
    command.add_argument("--tokens", type=positive, default=4, metavar="N", help="of a text, default: 4")
    command.add_argument("--temperature", type=float, default=1.0, help="default: 1")
    command.add_argument(
        "--top-k", type=int, default=3, metavar="K", help="0: off; default: 3, few texts to tell apart"
    )
    command.add_argument("--top-p", type=float, default=1.0, metavar="P", help="default: 1, off")
    command.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="sent with every request; repeatable",
    )
    command.add_argument(
        "--requests", type=positive, metavar="N", help="texts; default: as many as --detect needs"
    )
    command.add_argument(
        "--budget", type=positive_number, default=300.0, metavar="SECONDS", help="of the audit, default: 300"
    )
    command.add_argument(
        "--detect", type=rate, default=0.02, metavar="TV", help="to be found for a pass, default: 0.02"
    )
    command.add_argument("--alpha", type=rate, default=1e-6, help="false-alarm rate, default: 1e-6")
    command.add_argument("--concurrency", type=positive, default=4, metavar="N", help="default: 4")
    command.add_argument(
        "--timeout", type=positive_number, default=60.0, metavar="SECONDS", help="of one request, default: 60"
    )
    command.add_argument(
        "--reference",
        metavar="URL2",
        help="the same model without speculation, where the server shows no probabilities",
    )
    command.add_argument(
        "--seeded", action="store_true", help="each request has a seed of its own; a retry repeats its text"
    )
    command.add_argument(
        "--assume-speculating", action="store_true", help="drafts are made, though the server does not tell"
    )
    command.add_argument(
        "--api-key-env", default="", metavar="NAME", help="environment variable of the API key"
    )
    command.add_argument("--seed", type=int, default=0, help="of the audit's own choices, default: 0")
    command.add_argument(
        "--skip", action="append", default=[], metavar="CHECK", help="leave this check out; repeatable"
    )
    add_output(command, ("text", "json", "junit", "markdown", "html"))


def _audit_server(options: Any) -> int:
    from spec_oracle.adapters.servers.apis import Sampling
    from spec_oracle.adapters.servers.client import Client, Limits
    from spec_oracle.audit import AuditOptions, audit
    from spec_oracle.audit.server.served import Plan, Served
    from spec_oracle.audit.subjects.server import ServerSubject
    from spec_oracle.contracts.server import Server, connect
    from spec_oracle.report import AUDIT_FORMATS
    from spec_oracle.report.terminal import told

    chosen = AuditOptions(
        seed=options.seed, alpha=options.alpha, budget=options.budget, skip=dict.fromkeys(options.skip, "")
    )
    plan = Plan(options.tokens, options.requests, options.detect, options.seeded, options.assume_speculating)
    sampling = Sampling(options.temperature, options.top_k, options.top_p, _fields(options.field))
    limits = Limits(timeout=options.timeout, concurrency=options.concurrency)
    with ExitStack() as open_:
        tell = open_.enter_context(told())

        def connected(url: str) -> Server:
            client = open_.enter_context(Client(url, limits, options.api_key_env))
            names = {"api": options.api, "model": options.model, "prompts": options.prompt}
            return connect(client, sampling, **names, progress=tell)

        reference = connected(options.reference) if options.reference else None
        served = Served(connected(options.url), plan, reference, seed=options.seed)
        report = audit(ServerSubject(served), options=chosen)
    emit(options, AUDIT_FORMATS[options.format](replace(report, command=options.command_line)))
    return report.exit_code


def _fields(given: list[str]) -> dict[str, Any]:
    """Return the fields of ``NAME=JSON``; what is no JSON is text."""
    fields = {}
    for item in given:
        name, sign, value = item.partition("=")
        if not name or not sign:
            raise InvalidInputError(f"--field: expected NAME=JSON, got {item!r}")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields
