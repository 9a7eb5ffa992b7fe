"""The check `batch` of servers: concurrent requests are independent, and unchanged by other traffic."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from typing import Final

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.results import CheckResult, Status, failed
from spec_oracle.servers.checks import effort, streams
from spec_oracle.servers.checks.fields import long_prompt
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.contract import Ask, RefusedError

SERVER_BESIDE: Final = 2000  # Completions beside other traffic: with as many alone they detect a TV of 0.2.

BESIDE = 3
"""Other requests beside each that is judged."""

CERTAIN = 0.98
"""Probability of a first token, beyond which completions that are all alike are no surprise."""


def batch(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge concurrent requests: equal ones, and beside unlike ones."""
    return first_failure(
        context.rate,
        lambda rate: among_equals(subject, context, rate),
        lambda rate: beside_other_traffic(subject, context.budget / 3, rate),
    )


def among_equals(subject: ServerSubject, context: Context, rate: float) -> CheckResult:
    """Judge whether equal requests sent at once are independent, at every distance in their order."""
    width = subject.server.client.limits.concurrency
    if width < 2:
        return CheckResult("", Status.NOT_RUN, "needs concurrent requests: --concurrency 2 or more")
    asks = [streams.first_prompt(subject)] * width
    seconds = context.budget / 3
    found = streams.concurrent(subject, lambda: asks, 2 * effort.SERVER_PAIRS // width, seconds)
    if len({tokens for some in found for tokens in some}) == 1 and not _may_be_alike(subject):
        draws = width * len(found)
        return failed(f"all {draws:,} completions are the same", draws=draws, alpha=rate)

    def at(distance: int, rate: float) -> CheckResult:
        # Every other run of ``distance`` requests, so that no completion is in two pairs.
        first = [i for i in range(width - distance) if i // distance % 2 == 0]
        near = [(some[i], some[i + distance]) for some in found for i in first]
        what = f"completions of concurrent requests {distance} apart"
        return streams.judge_pairs(what, near, subject, context, rate)

    return first_failure(rate, *(partial(at, distance) for distance in range(1, width)))


def _may_be_alike(subject: ServerSubject) -> bool:
    """Whether completions of the first prompt may well be all the same, or nothing is known of them."""
    law = subject.distributions.after((0, ())) if subject.server.listed else None
    return law is None or float(law.probabilities[0]) > CERTAIN


def beside_other_traffic(subject: ServerSubject, seconds: float, rate: float) -> CheckResult:
    """Judge whether completions are distributed alike beside requests that are unlike them.

    Those are hotter, colder, greedy, longer, shorter and seeded ones, some after long prompts, or under a
    grammar or a JSON schema; three of them beside each, in turn.
    """
    server, tokens, heat = subject.server, subject.plan.tokens, subject.server.sampling.temperature
    first, last = server.prompts[0], server.prompts[-1]
    others = [
        Ask(last, 3 * tokens, temperature=2 * heat),
        Ask(first, tokens, seed=7, temperature=heat / 10),
        Ask(last, 1),
        Ask(long_prompt(last), tokens),
        *(Ask(first, 2 * tokens, fields=fields) for fields in subject.grammars or [{}]),
        Ask(last, tokens, temperature=0.0),
    ]
    with suppress(RefusedError):
        server.complete(others[-1:])
        return _beside(subject, others, seconds, rate)
    return _beside(subject, others[:3], seconds, rate)  # a server that takes no temperature of 0


def _beside(subject: ServerSubject, others: Sequence[Ask], seconds: float, rate: float) -> CheckResult:
    ours, turn = max(1, subject.server.client.limits.concurrency // 2), cycle(others)

    def asks() -> list[Ask]:
        return [ask for _ in range(ours) for ask in (streams.first_prompt(subject), *islice(turn, BESIDE))]

    found = streams.concurrent(subject, asks, -(-SERVER_BESIDE // ours), seconds)
    beside = [completion for some in found for completion in some[:: 1 + BESIDE]]
    return streams.judge_alike("completions beside other traffic", beside, subject, seconds, rate)
