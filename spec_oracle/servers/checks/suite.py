"""The suite of running servers: their checks, from top to bottom, and the function that runs each."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Final

from spec_oracle.audit import AuditOptions, AuditReport, audit
from spec_oracle.audit.checks import (
    BATCH,
    JOINT,
    LENGTH,
    LOGPROBS,
    LONG_TEXTS,
    MODEL,
    PLAIN_LAW,
    SHAPES,
    STREAMS,
    Run,
    Suite,
    skip_if_lossy,
)
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult
from spec_oracle.servers.checks.batch import batch
from spec_oracle.servers.checks.budget import needs, planned, taken
from spec_oracle.servers.checks.joint import joint
from spec_oracle.servers.checks.length import length
from spec_oracle.servers.checks.logprobs import logprobs
from spec_oracle.servers.checks.long_texts import long_texts
from spec_oracle.servers.checks.model import model
from spec_oracle.servers.checks.plain_law import plain_law
from spec_oracle.servers.checks.shapes import shapes
from spec_oracle.servers.checks.streams import streams
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import ServerError


def _end_after(subject: ServerSubject, seconds: float) -> None:
    """Let all requests end in so many seconds from now."""
    for server in (subject.server, subject.reference, subject.draft):
        if isinstance(server, Server):
            server.client.end = time.monotonic() + seconds


def _in_time(run: Run) -> Run:
    """Let the requests of a check end with its budget."""

    @wraps(run)
    def timed(subject: ServerSubject, context: Context) -> CheckResult:
        _end_after(subject, context.budget)
        return run(subject, context)

    return timed


_RUNS: Final[Suite] = {
    PLAIN_LAW: plain_law,
    JOINT: joint,
    MODEL: model,
    SHAPES: skip_if_lossy(shapes),
    LENGTH: length,
    LONG_TEXTS: skip_if_lossy(long_texts),
    LOGPROBS: logprobs,
    STREAMS: skip_if_lossy(streams),
    BATCH: skip_if_lossy(batch),
}

SERVER: Final[Suite] = {check: _in_time(run) for check, run in _RUNS.items()}


def audit_server(
    subject: ServerSubject, options: AuditOptions, tell: Callable[[str], object] = lambda _: None
) -> AuditReport:
    """Run the checks of a server, in this process; ``tell`` the plan first, the report has what was done."""
    _end_after(subject, options.budget)
    with suppress(ServerError):  # a server that does not answer is for the first check to report
        subject.needs = needs(subject, options.alpha, options.skip)
        tell(planned(subject, options.budget))
    report = audit(subject, options=options, suite=SERVER)
    (found,) = report.subjects
    if not (done := taken(subject, found.checks)):
        return report
    remarks = replace(found.remarks, notes=(*found.remarks.notes, done))
    return replace(report, subjects=(replace(found, remarks=remarks),))
