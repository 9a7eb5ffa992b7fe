"""The suite of running servers: their checks, from top to bottom, and the plan that is shown before they run.

The plan says how many requests the large checks need, and how long they take; nothing is judged before.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Final

from spec_oracle.audit import AuditOptions, AuditReport, audit, effort
from spec_oracle.audit.checks import CHECKS, Run, Suite, skip_if_lossy
from spec_oracle.audit.context import Context
from spec_oracle.audit.long_tokens import tokens_needed
from spec_oracle.audit.results import UNTRIED, CheckResult, inconclusive
from spec_oracle.contracts import ContractError
from spec_oracle.servers.checks.batch import batch
from spec_oracle.servers.checks.joint import joint
from spec_oracle.servers.checks.length import length
from spec_oracle.servers.checks.logprobs import logprobs
from spec_oracle.servers.checks.long_texts import long_texts
from spec_oracle.servers.checks.model import model
from spec_oracle.servers.checks.plain_law import plain_law
from spec_oracle.servers.checks.shapes import shapes
from spec_oracle.servers.checks.streams import streams
from spec_oracle.servers.checks.subject import HIDES_ENDS, WITHOUT_ENDS, ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask, ServerError
from spec_oracle.statistics import draws_needed_by_g


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


def _where_ends_show(run: Run) -> Run:
    """Leave a check open where the server hides the token that ends a text."""

    @wraps(run)
    def shown(subject: ServerSubject, context: Context) -> CheckResult:
        try:
            found = run(subject, context)
        except ContractError:
            if not subject.server.hides_ends:
                raise
        else:
            if not subject.server.hides_ends or found.status in UNTRIED:
                return found
        return inconclusive(HIDES_ENDS, do=WITHOUT_ENDS)

    return shown


SERVER: Final[Suite] = {
    "plain-law": _where_ends_show(_in_time(plain_law)),
    "joint": _where_ends_show(_in_time(joint)),
    "model": _where_ends_show(_in_time(model)),
    "shapes": skip_if_lossy(_where_ends_show(_in_time(shapes))),
    "length": _in_time(length),
    "long-texts": skip_if_lossy(_where_ends_show(_in_time(long_texts))),
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


def needs(subject: ServerSubject, alpha: float, left_out: Collection[str] = ()) -> dict[str, Need]:
    """Return what the large checks need at a false-alarm rate of ``alpha`` for all; raises `ServerError`."""
    plan, listed = subject.plan, subject.server.listed
    rate = {name: alpha * float(check.share) for name, check in CHECKS.items()}
    one, several = pace(subject.server, 1), pace(subject.server, plan.tokens)
    count = plan.requests or draws_needed_by_g(plan.detect, effort.USUAL_BINS, alpha=rate["joint"] / 2)
    found = {"joint": Need(count if listed else 2 * count, "completions", several)}
    if listed:
        is_alone = "joint" in left_out and subject.draft is None
        finest = plan.detect if is_alone else min(plan.coarse, effort.SERVER_DISTANCES_TV)
        another = max(1 / several - 1 / one, 0.0) / (plan.tokens - 1)  # seconds that one more token takes
        judged = 1 / (1 / one + another)  # a token is sampled, and asked for alone
        found["long-texts"] = Need(tokens_needed(finest, rate["long-texts"]), "tokens", judged)
    return {name: need for name, need in found.items() if name not in left_out}


def pace(server: Server, tokens: int) -> float:
    """Measure how many completions of so many tokens come in a second, by one round of requests."""
    asks, started = [Ask(server.prompts[0], tokens)] * server.client.limits.concurrency, time.monotonic()
    server.complete(asks)
    return len(asks) / max(time.monotonic() - started, 1e-6)


def planned(wanted: Mapping[str, Need], budget: float) -> str:
    """Return the plan in words: what the large checks need, and whether the budget suffices."""
    said = [
        f"{name} needs {need.count:,} {need.what}: {in_words(need.seconds)} at "
        f"{need.each:{',.0f' if need.each >= 10 else '.2g'}} a second"
        for name, need in wanted.items()
    ]
    longest = max((need.seconds for need in wanted.values()), default=0.0)
    if longest > budget:
        more = f"more than --budget {budget:g} for a check"
        said.append(f"that is {more}: give --budget {math.ceil(1.2 * longest)} or a larger --detect")
    return f"plan: {'; '.join(said) or 'no large check is asked for'}"


def in_words(seconds: float) -> str:
    """Return a time for people.

    >>> in_words(12.3), in_words(1100), in_words(30000)
    ('12 s', '18 minutes', '8 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
