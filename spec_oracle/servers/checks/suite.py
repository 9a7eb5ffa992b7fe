"""The suite of running servers: their checks, from top to bottom, and the plan that is shown before they run.

The plan says how many requests each check needs, and how long they take; nothing is judged before.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Final

from spec_oracle.audit import AuditOptions, AuditReport, audit, effort
from spec_oracle.audit.checks import CHECKS, Run, Suite, skip_if_lossy
from spec_oracle.audit.context import Context
from spec_oracle.audit.long_tokens import tokens_needed
from spec_oracle.audit.results import CheckResult
from spec_oracle.servers.checks.batch import batch
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
from spec_oracle.servers.contract import Ask, ServerError
from spec_oracle.statistics import draws_needed_by_g

LARGE: Final = ("joint", "long-texts")
"""Checks that the plan always names."""

COMBINATIONS: Final = 10
"""Of sampling fields, about."""


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


SERVER: Final[Suite] = {
    "plain-law": _in_time(plain_law),
    "joint": _in_time(joint),
    "model": _in_time(model),
    "shapes": skip_if_lossy(_in_time(shapes)),
    "length": _in_time(length),
    "long-texts": skip_if_lossy(_in_time(long_texts)),
    "logprobs": _in_time(logprobs),
    "streams": skip_if_lossy(_in_time(streams)),
    "batch": skip_if_lossy(_in_time(batch)),
}


def audit_server(
    subject: ServerSubject, options: AuditOptions, tell: Callable[[str], object] = lambda _: None
) -> AuditReport:
    """Run the checks of a server, in this process; ``tell`` the plan first."""
    _end_after(subject, options.budget)
    with suppress(ServerError):  # a server that does not answer is for the first check to report
        tell(planned(needs(subject, options.alpha, options.skip), options.budget))
    return audit(subject, options=options, suite=SERVER)


def with_notes(report: AuditReport, *notes: str) -> AuditReport:
    """Return the report of a server with more notes; empty ones are left out."""
    (found,) = report.subjects
    remarks = replace(found.remarks, notes=(*found.remarks.notes, *filter(None, notes)))
    return replace(report, subjects=(replace(found, remarks=remarks),))


@dataclass(frozen=True)
class Need:
    """What a check needs: ``count`` of ``what``, so many ``each`` second."""

    count: int
    what: str
    each: float

    @property
    def seconds(self) -> float:
        """How long that takes."""
        return self.count / max(self.each, 1e-9)


def needs(subject: ServerSubject, alpha: float, left_out: Iterable[str] = ()) -> dict[str, Need]:
    """Return what each check needs at a false-alarm rate of ``alpha`` for all; raises `ServerError`."""
    plan, listed, reference = subject.plan, subject.server.listed, subject.reference
    rate = {name: alpha * float(check.share) for name, check in CHECKS.items()}
    one, several = pace(subject.server, 1), pace(subject.server, plan.tokens)
    each = max(1 / several - 1 / one, 0.0) / (plan.tokens - 1)  # seconds that one more token takes
    longer = 1 / (1 / one + each * effort.SERVER_LONGER * plan.tokens)
    count = plan.requests or draws_needed_by_g(plan.detect, effort.USUAL_BINS, alpha=rate["joint"] / 2)
    pairs = 2 * effort.SERVER_PAIRS
    found = {
        "joint": Need(count if listed else 2 * count, "completions", several),
        "length": Need(48, "completions", longer),
        "streams": Need(2 * pairs, "completions", several),
        "batch": Need(6 * pairs, "requests", several),
    }
    if listed:
        judged = 1 / (1 / one + each)  # a token is sampled, and asked for alone
        one_token = draws_needed_by_g(plan.coarse, effort.USUAL_BINS, alpha=rate["plain-law"] / 2)
        combination = tokens_needed(effort.SERVER_SHAPES_TV, rate["shapes"] / (2 * COMBINATIONS), 0.1)
        is_alone = "joint" in left_out
        long = (
            plan.detect
            if is_alone and subject.draft is None
            else min(plan.coarse, effort.SERVER_DISTANCES_TV)
        )
        found |= {
            "plain-law": Need(one_token, "tokens", one),
            "shapes": Need(COMBINATIONS * combination, "tokens", judged),
            "long-texts": Need(tokens_needed(long, rate["long-texts"]), "tokens", judged),
            "logprobs": Need(9 * (1 + effort.SERVER_LONGER * plan.tokens), "requests", one),
        }
    if reference is not None:
        found["model"] = Need(200, "tokens", one / 2)
    return {name: found[name] for name in CHECKS if name in found and name not in left_out}


def pace(server: Server, tokens: int) -> float:
    """Measure how many completions of so many tokens come in a second, by one round of requests."""
    asks, started = [Ask(server.prompts[0], tokens)] * server.client.limits.concurrency, time.monotonic()
    server.complete(asks)
    return len(asks) / max(time.monotonic() - started, 1e-6)


def planned(wanted: Mapping[str, Need], budget: float) -> str:
    """Return the plan in words: the needs of the large checks, and the time of all."""
    if not wanted:
        return "plan: no check is asked for"
    largest = max(wanted, key=lambda name: wanted[name].seconds)
    large = [name for name in wanted if name in (*LARGE, largest)]
    said = [
        f"{name} needs {wanted[name].count:,} {wanted[name].what}: {in_words(wanted[name].seconds)} at "
        f"{wanted[name].each:{',.0f' if wanted[name].each >= 10 else '.2g'}} a second"
        for name in large
    ]
    rest = sum(need.seconds for name, need in wanted.items() if name not in large)
    line = "; ".join([*said, f"all else {in_words(rest)}"])
    total = in_words(sum(min(need.seconds, budget) for need in wanted.values()))
    if wanted[largest].seconds <= budget:
        return f"plan: {line}; {total} in all"
    more = f"more than --budget {budget:g} for a check, which ends all after {total}"
    enough = math.ceil(1.2 * wanted[largest].seconds)
    return f"plan: {line}; that is {more}: give --budget {enough} or a larger --detect"


def in_words(seconds: float) -> str:
    """Return a time for people.

    >>> in_words(12.3), in_words(1100), in_words(30000)
    ('12 s', '18 minutes', '8 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
