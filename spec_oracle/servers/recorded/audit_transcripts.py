"""``spec-oracle audit-transcripts``: judge recorded completions, without the server that made them."""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from spec_oracle.commands.options import (
    Command,
    flag,
    positive_number,
    rate,
    report_options,
    value,
    write_audit,
)
from spec_oracle.errors import INTERRUPTED, InvalidInputError

if TYPE_CHECKING:
    from spec_oracle.servers.recorded.checks import Transcripts
    from spec_oracle.servers.recorded.transcripts import Transcript

POLL = 0.5
"""Seconds between two looks at a file that grows."""


def run(options: Namespace) -> int:
    """Judge the file, write the report, and return its exit code."""
    from spec_oracle.audit.reports import AuditReport
    from spec_oracle.servers.checks.distributions import load_rows
    from spec_oracle.servers.client.client import Client, Limits
    from spec_oracle.servers.client.server import connect
    from spec_oracle.servers.recorded.checks import Transcripts
    from spec_oracle.servers.recorded.transcripts import read_growing, read_written

    with ExitStack() as open_:
        try:
            file = open_.enter_context(Path(options.file).open("rb"))
            some, begun = ([], b"") if options.follow else read_written(file.read())
        except OSError as error:
            raise InvalidInputError(f"FILE: {error}") from None
        except InvalidInputError as error:
            raise InvalidInputError(f"{options.file}: {error}") from None
        rows = load_rows(options.model) if options.model and not options.server else None
        started, end = time.perf_counter(), time.monotonic() + options.budget  # local weights are loaded
        more: Iterator[Transcript | None] = iter(())
        if options.follow:
            some, more = _first(read_growing(file), end)
        if not some:
            raise InvalidInputError(f"FILE: {options.file} holds no completion")
        server = None
        if options.server:
            client = open_.enter_context(Client(options.server, Limits(), options.api_key_env, end))
            server = connect(client, some[0].sampling)
        noise = options.noise if options.noise is not None else MODEL_NOISE if options.model else 0.0
        found = Transcripts(some, server=server, rows=rows, noise=noise, seed=options.seed)
        ended = _judge(found, some, more, options, end)
    subject = found.report(options.file, options.alpha, options.detect, ended)
    if begun:
        note = "the last line of the file is not complete, and was left out"
        subject = replace(subject, remarks=replace(subject.remarks, notes=(*subject.remarks.notes, note)))
    report = AuditReport((subject,), options.seed, options.alpha, seconds=time.perf_counter() - started)
    return write_audit(options, report)


def _first(
    more: Iterator["Transcript | None"], end: float
) -> tuple[list["Transcript"], Iterator["Transcript | None"]]:
    """Wait for enough completions to know the reading of their rows; return them, and the rest."""
    from spec_oracle.audit.effort import SERVER_READING_SAMPLES

    some: list[Transcript] = []
    try:
        for transcript in more:
            if transcript is not None:
                some.append(transcript)
            elif len(some) >= SERVER_READING_SAMPLES or time.monotonic() > end:
                break
            else:
                time.sleep(POLL)
    except KeyboardInterrupt:
        return some, iter(())
    return some, more


def _judge(
    found: "Transcripts",
    some: Sequence["Transcript"],
    more: Iterator["Transcript | None"],
    options: Namespace,
    end: float,
) -> str:
    """Judge completions, and ``more`` of them until they are known to be wrong; say why it ended early."""
    from spec_oracle.report.terminal import showing_progress
    from spec_oracle.servers.contract import OutOfTimeError, ServerError

    with showing_progress() as tell:
        try:
            for transcript in chain(some, more):
                if (number := found.completions) and time.monotonic() > end:
                    raise OutOfTimeError(
                        f"{number} of {len(some)} completions were judged in time; raise --budget"
                    )
                if transcript is not None:
                    tell("completions", number, 0 if options.follow else len(some))
                    found.add(transcript)
                elif found.is_decided(options.alpha):
                    break
                else:
                    time.sleep(POLL)
        except (ServerError, InvalidInputError, KeyboardInterrupt) as error:
            if not found.completions or (isinstance(error, InvalidInputError) and not options.follow):
                raise
            ended = str(error) or INTERRUPTED
            # One that follows a file ends in these ways only, with all that was written so far.
            is_usual = isinstance(error, OutOfTimeError) or ended == INTERRUPTED
            return "" if options.follow and is_usual else ended
    return ""


MODEL_NOISE = 0.01
"""Nats by which log-probabilities of local weights may differ from those of another implementation."""

_MORE = """\
Each line of FILE is JSON: "prompt" and "tokens" (lists of token ids); if known "rows" (for each token an
object of log-probabilities by token id), "draft_rows" (the same of the draft model), "logprobs" (reported of
the tokens) and "sampling" (temperature, top_k, top_p). `audit-server --record FILE` writes such files. The
reference is what the file records, or a scoring server, or local weights. Tokens are compared with their own
next-token distributions, at a stated false-alarm rate. Exit codes: 0 lossless, 1 lossy, 2 inconclusive, 3 a
mistake in the file or the options. The rate holds at any time, so that --follow watches a file that grows.
"""
_NOISE = "nats by which its log-probabilities may be off; default: 0.01 for --model, else what is measured"
AUDIT_TRANSCRIPTS = Command(
    run,
    "Is every token of recorded completions sampled from its next-token distribution?",
    "spec-oracle audit-transcripts completions.jsonl --model HuggingFaceTB/SmolLM2-135M",
    _MORE,
    options={
        "the completions": [
            value("file", "FILE", "one JSON object a line"),
            flag("--follow", "go on with lines that are added, until it is lossy or --budget is over"),
        ],
        "the reference": [
            value("--server", "URL", "a server of the target model, asked for one token a time", default=""),
            value("--model", "NAME", "local weights, as Hugging Face transformers knows them", default=""),
            value("--noise", "NATS", _NOISE, float),
            value("--api-key-env", "NAME", "environment variable of an API key", default=""),
        ],
        "effort and error rate": [
            value("--detect", "TV", "total variation a token that must be detectable for a pass", rate, 0.1),
            value("--budget", "SECONDS", "of each check, at most", positive_number, 300.0),
            value("--alpha", "RATE", "false-alarm rate", rate, 1e-6),
            value("--seed", "SEED", "of the audit's own choices", int, 0),
        ],
        "the report": [
            *report_options("text", "json", "junit", "markdown", "html"),
            flag("--verbose", "show scope, sizes, rates and samples of checks", "-v"),
        ],
    },
)
