"""``spec-oracle audit-server``: judge the completions of a running server."""

import json
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from spec_oracle.commands.options import (
    Command,
    emit,
    option,
    positive,
    positive_number,
    rate,
    report_options,
)
from spec_oracle.errors import InvalidInputError


def run(options: Any) -> int:
    """Audit the server, write the report, and return its exit code."""
    from spec_oracle.adapters.servers.client import Client, Limits
    from spec_oracle.adapters.servers.server import Server, connect
    from spec_oracle.audit import AuditOptions, audit
    from spec_oracle.audit.server.subject import Plan, ServerSubject
    from spec_oracle.contracts.server import Sampling
    from spec_oracle.report import formatted
    from spec_oracle.report.progress import showing_progress
    from spec_oracle.report.terminal import show

    skip = dict.fromkeys(options.skip or (), "")
    chosen = AuditOptions(seed=options.seed, alpha=options.alpha, budget=options.budget, skip=skip)
    plan = Plan(options.tokens, options.requests, options.detect, options.seeded, options.assume_speculating)
    sampling = Sampling(options.temperature, options.top_k, options.top_p, _fields(options.field))
    limits = Limits(timeout=options.timeout, concurrency=options.concurrency)
    with ExitStack() as open_:
        progress = open_.enter_context(showing_progress())

        def connected(url: str) -> Server:
            client = open_.enter_context(Client(url, limits, options.api_key_env))
            names = {"api": options.api, "model": options.model, "prompts": options.prompt}
            return connect(client, sampling, **names, progress=progress)

        reference = connected(options.reference) if options.reference else None
        server = connected(options.url)
        subject = ServerSubject(server.client.url, server, plan, reference, seed=options.seed)
        report = audit(subject, options=chosen)
    write = partial(emit, options) if options.output or options.format != "text" else show
    report = replace(report, command=options.command_line)
    write(formatted(report, options.format, verbose=options.verbose))
    return report.exit_code


def _fields(given: list[str]) -> dict[str, Any]:
    """Return the fields of ``NAME=JSON``; what is not JSON is text."""
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


_MORE = """\
A request for one token has nothing to speculate on: by such requests the server reports the next-token
distributions of target-only decoding. Completions of several tokens are sampled and compared with them, at a
stated false-alarm rate and power. "lossless": no defect of the stated total variation was found, with power
0.999 to detect one; it is no proof. "lossy": the completions are distributed otherwise, up to the false-alarm
rate. Not covered: other prompts, filters, temperatures and loads; longer completions; and whether the served
model is the one that you mean.
"""
_REFERENCE = "a server of the same model without speculation, for a URL that reports no probabilities"
_SERVER = (
    option("url", metavar="URL", help="of the server, with or without /v1 at its end"),
    option("--model", default="", help="default: the first model that the server names"),
    option("--api", choices=("openai", "llama.cpp"), default="", help="default: found out by asking"),
    option("--reference", metavar="URL2", help=_REFERENCE),
    option("--api-key-env", default="", metavar="NAME", help="environment variable of an API key"),
    option(
        "--assume-speculating", action="store_true", help="drafts are made, though it does not report them"
    ),
)
_PROMPT = "text, or a JSON list of token ids; repeatable; default: three built-in prompts"
_TOP_K = "default: 3, which keeps distinct completions few; 0: off"
_FIELD = "a field to send with every request; repeatable"
_REQUESTS = (
    option("--prompt", action="append", default=[], help=_PROMPT),
    option("--tokens", type=positive, default=4, metavar="N", help="tokens of a completion; default: 4"),
    option("--temperature", type=float, default=1.0, help="default: 1"),
    option("--top-k", type=int, default=3, metavar="K", help=_TOP_K),
    option("--top-p", type=float, default=1.0, metavar="P", help="default: 1, off"),
    option("--field", action="append", default=[], metavar="NAME=JSON", help=_FIELD),
    option("--seeded", action="store_true", help="send a seed with each request, so that a retry repeats it"),
    option("--concurrency", type=positive, default=4, metavar="N", help="requests at a time; default: 4"),
    option("--timeout", type=positive_number, default=60.0, metavar="S", help="of a request; default: 60"),
)
_DETECT = "total variation that must be detectable for a pass; default: 0.02"
_MOST = "completions at most; default: as many as --detect needs"
_EFFORT = (
    option("--detect", type=rate, default=0.02, metavar="TV", help=_DETECT),
    option("--requests", type=positive, metavar="N", help=_MOST),
    option("--budget", type=positive_number, default=300.0, metavar="S", help="of the audit; default: 300"),
    option("--alpha", type=rate, default=1e-6, help="false-alarm rate; default: 1e-6"),
    option("--seed", type=int, default=0, help="of the audit's own choices; default: 0"),
    option("--skip", action="append", default=[], metavar="CHECK", help="leave this check out; repeatable"),
)
AUDIT_SERVER = Command(
    run,
    "Are the completions of a running server distributed as its own model's without speculation?",
    "spec-oracle audit-server http://localhost:8080 --top-k 3 --detect 0.05 --budget 120",
    _MORE,
    options={
        "the server": _SERVER,
        "the requests": _REQUESTS,
        "effort and error rate": _EFFORT,
        "the report": (
            *report_options("text", "json", "junit", "markdown", "html"),
            option(
                "-v", "--verbose", action="store_true", help="show scope, sizes, rates and samples of checks"
            ),
        ),
    },
)
