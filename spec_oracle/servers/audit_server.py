"""``spec-oracle audit-server``: judge the completions of a running server."""

import argparse
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from spec_oracle.commands.options import (
    Command,
    file_to_write,
    flag,
    positive,
    positive_number,
    rate,
    report_options,
    several,
    value,
    write_audit,
)
from spec_oracle.errors import InvalidInputError

LEFT_OUT = {"rl": ("length", "batch")}
"""By purpose the checks that say nothing of it."""

_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in ("temperature", "top_k", "top_p", "prompt", "model")},
    **dict.fromkeys(("max_tokens", "n_predict"), "--tokens"),
    "stream": "--stream",
}
"""Options in the place of fields that the audit sets."""

_OWN = ("seed", "stop", "logprobs", "n_probs")
"""Fields of which the audit has values of its own."""


def run(options: argparse.Namespace) -> int:
    """Audit the server, write the report, and return its exit code."""
    from spec_oracle.audit import AuditOptions
    from spec_oracle.contracts.completion import Sampling
    from spec_oracle.report.terminal import showing_progress
    from spec_oracle.servers.checks.distributions import Weights, load_rows
    from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
    from spec_oracle.servers.checks.suite import audit_server
    from spec_oracle.servers.client.client import Client, Limits
    from spec_oracle.servers.client.server import Server, connect, same_prompts
    from spec_oracle.servers.recorded.transcripts import line_of

    skip = dict.fromkeys([*(options.skip or ()), *LEFT_OUT.get(options.purpose, ())], "")
    chosen = AuditOptions(seed=options.seed, alpha=options.alpha, budget=options.budget, skip=skip)
    plan = ServerPlan(
        tokens=options.tokens,
        requests=options.requests,
        detect=options.detect,
        seeded=options.seeded,
        assume_speculating=options.assume_speculating,
        long_tokens=options.long_tokens,
        streams_too=options.stream,
    )
    sampling = Sampling(options.temperature, options.top_k, options.top_p, _fields(options.field))
    limits = Limits(timeout=options.timeout, concurrency=options.concurrency)
    is_served = (options.draft or "").startswith(("http://", "https://"))
    with ExitStack() as open_:
        rows = load_rows(options.draft) if options.draft and not is_served else None
        progress = open_.enter_context(showing_progress())

        def connected(url: str) -> Server:
            end = time.monotonic() + options.budget
            client = open_.enter_context(Client(url, limits, options.api_key_env, end))
            return connect(
                client,
                sampling,
                api=options.api,
                model=options.model,
                prompts=options.prompt,
                progress=progress,
            )

        draft = connected(options.draft) if is_served else None
        reference = connected(options.reference) if options.reference else None
        server = connected(options.url)
        weights = Weights(rows, server.prompts) if rows else None
        record = open_.enter_context(options.record.open("w", encoding="utf-8")) if options.record else None
        written = 0

        def write_line(*completion: Any) -> None:
            nonlocal written
            if record:
                written += 1
                record.write(line_of(*completion) + "\n")

        subject = ServerSubject(
            server.client.url,
            server,
            plan,
            reference,
            seed=options.seed,
            draft=same_prompts(draft, server) if draft else weights,
            record=write_line,
        )
        report = audit_server(subject, chosen, partial(print, file=sys.stderr))
    if record:
        (found,) = report.subjects
        note = f"{written:,} completions of long-texts were written to {options.record}"
        remarks = replace(found.remarks, notes=(*found.remarks.notes, note))
        report = replace(report, subjects=(replace(found, remarks=remarks),))
    return write_audit(options, report)


def _fields(given: list[str]) -> dict[str, object]:
    """Return the fields of ``NAME=JSON``; a value that is not JSON is text."""
    fields = {}
    for item in given:
        name, sign, value = item.partition("=")
        if not name or not sign:
            raise InvalidInputError(f"--field: expected NAME=JSON, got {item!r}")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
        is_left_out = fields[name] is None and name in ("temperature", "top_k", "top_p")
        if name in (*_OPTIONS, *_OWN) and not is_left_out:
            instead = f"use {_OPTIONS[name]}" if name in _OPTIONS else "leave it out"
            raise InvalidInputError(f"--field: the audit sets {name} itself: {instead}")
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
_DRAFT = "the draft model, or any small one with these token ids: a URL, or local weights; finer long-texts"
_RECORD = "write the completions of long-texts here, for audit-transcripts"
_PROMPT = "text, or a JSON list of token ids; default: three built-in prompts"
_TOP_K = "most likely tokens to sample from, 0: all; few keep distinct completions few"
_LONG = "tokens of a completion of long-texts; default: 64, 256 or 512 where shorter ones draft nothing"
_FOR = "rl: rollouts of reinforcement learning: only what decides their gradients"
_SEEDED = "send a seed with each request, so that a retry repeats it"
_STREAM = "compare streamed completions, greedy and seeded, with the same ones not streamed"
AUDIT_SERVER = Command(
    run,
    "Are the completions of a running server distributed as its own model's without speculation?",
    "spec-oracle audit-server http://localhost:8080 --top-k 3 --detect 0.05 --budget 120",
    _MORE,
    options={
        "the server": [
            value("url", "URL", "of the server, with or without /v1 at its end"),
            value("--model", "NAME", "default: the first model that the server names", default=""),
            value("--api", None, "default: found out by asking", default="", choices=("openai", "llama.cpp")),
            value("--reference", "URL2", _REFERENCE),
            value("--draft", "MODEL", _DRAFT),
            value("--api-key-env", "NAME", "environment variable of an API key", default=""),
            flag("--assume-speculating", "drafts are made, though it does not report them"),
        ],
        "the requests": [
            several("--prompt", "PROMPT", _PROMPT, default=[]),
            value("--tokens", "N", "tokens of a completion", positive, 4),
            value("--long-tokens", "N", _LONG, positive),
            value("--temperature", "T", "of sampling", float, 1.0),
            value("--top-k", "K", _TOP_K, int, 3),
            value("--top-p", "P", "1: off", float, 1.0),
            several("--field", "NAME=JSON", "a field to send with every request", default=[]),
            flag("--seeded", _SEEDED),
            flag("--stream", _STREAM),
            value("--concurrency", "N", "requests at a time", positive, 4),
            value("--timeout", "SECONDS", "of a request", positive_number, 60.0),
        ],
        "effort and error rate": [
            value("--detect", "TV", "total variation that must be detectable for a pass", rate, 0.02),
            value("--requests", "N", "completions at most; default: as many as --detect needs", positive),
            value("--budget", "SECONDS", "of each check, at most", positive_number, 180.0),
            value("--alpha", "RATE", "false-alarm rate", rate, 1e-6),
            value("--seed", "SEED", "of the audit's own choices", int, 0),
            several("--skip", "CHECK", "leave this check out", default=[]),
            value("--for", None, _FOR, default="", choices=tuple(LEFT_OUT), dest="purpose"),
        ],
        "the report": [
            value("--record", "FILE", _RECORD, file_to_write),
            *report_options("text", "json", "junit", "markdown", "html"),
            flag("--verbose", "show scope, sizes, rates and samples of checks", "-v"),
        ],
    },
)
