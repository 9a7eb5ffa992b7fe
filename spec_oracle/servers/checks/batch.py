"""The check `batch` of servers: concurrent requests are independent, and unchanged by other traffic."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import cycle, islice

from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import first_failure
from spec_oracle.audit.results import CheckResult, Status, failed, inconclusive, passed
from spec_oracle.servers.checks import streams
from spec_oracle.servers.checks.fields import long_prompt
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.contract import Ask, RefusedError

OTHERS = 3
"""Other requests for each one that is judged."""


def batch(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge concurrent requests: equal ones, and ordinary ones among other traffic."""
    return first_failure(
        context.rate,
        lambda rate: among_equals(subject, context, rate),
        lambda rate: among_other_traffic(subject, replace(context, budget=context.budget / 3, rate=rate)),
    )


def among_equals(subject: ServerSubject, context: Context, rate: float) -> CheckResult:
    """Judge whether equal requests sent at once are independent, at every distance in their order."""
    width = subject.server.client.limits.concurrency
    if width < 2:
        return CheckResult("", Status.NOT_RUN, "needs concurrent requests: --concurrency 2 or more")
    asks = [streams.first_prompt(subject)] * width
    sets, in_time = list[Sequence[streams.Tokens]](), replace(context, budget=context.budget / 3)

    def at(distance: int, rate: float) -> CheckResult:
        # Every other run of ``distance`` requests, so that no completion is in two pairs.
        first = [i for i in range(width - distance) if i // distance % 2 == 0]
        pairs = [(some[i], some[i + distance]) for some in sets for i in first]

        def of(some: Sequence[streams.Tokens]) -> list[streams.Pair]:
            sets.append(some)
            return [(some[i], some[i + distance]) for i in first]

        place = "the next one" if distance == 1 else f"the one {distance} after it"
        what = f"requests sent at once, one and {place}"
        near = streams.concurrent(subject, lambda: asks, of, pairs)
        return streams.independent(what, near, subject, replace(in_time, rate=rate))

    def not_all_the_same(rate: float) -> CheckResult:
        draws = width * len(sets)
        if len({tokens for some in sets for tokens in some}) != 1:
            return passed(f"{draws:,} completions of concurrent requests are not all the same", draws=draws)
        if _likeliest(subject) ** (draws - 1) > rate:  # may be chance
            return inconclusive(f"all {draws:,} completions of concurrent requests are the same")
        return failed(f"all {draws:,} completions are the same", draws=draws, alpha=rate)

    return first_failure(rate, *(partial(at, distance) for distance in range(1, width)), not_all_the_same)


def _likeliest(subject: ServerSubject) -> float:
    """Return the largest probability of a first token after the first prompt, 1 where it is not known."""
    law = subject.distributions.after((0, ())) if subject.server.listed else None
    return 1.0 if law is None else float(max(law.probabilities[0], law.other))


def among_other_traffic(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge whether completions among other traffic are distributed like completions alone.

    Other traffic is hotter, colder, greedy, longer, shorter and seeded requests, some after long prompts, or
    under a grammar; three of them are sent with each judged one, in turn.
    """
    server, tokens, heat = subject.server, subject.plan.tokens, subject.server.sampling.temperature
    first, last = server.prompts[0], server.prompts[-1]
    others = [
        Ask(last, 3 * tokens, temperature=2 * heat),
        Ask(first, tokens, seed=7, temperature=heat / 10),
        Ask(last, 1),
        Ask(long_prompt(last), tokens),
        Ask(first, 2 * tokens, fields=subject.grammar),
        Ask(last, tokens, temperature=0.0),
    ]
    others = [ask for ask in others if ask.seed is None or server.takes_seeds]
    with suppress(RefusedError):
        server.complete(others[-1:])
        return _among(subject, others, context)
    return _among(subject, others[:-3], context)  # a server that takes no temperature of 0


def _among(subject: ServerSubject, others: Sequence[Ask], context: Context) -> CheckResult:
    ours, turn = max(1, subject.server.client.limits.concurrency // 2), cycle(others)

    def asks() -> list[Ask]:
        return [ask for _ in range(ours) for ask in (streams.first_prompt(subject), *islice(turn, OTHERS))]

    requests = streams.concurrent(subject, asks, lambda some: some[:: 1 + OTHERS], [])
    return streams.alike("completions beside other traffic", requests, subject, context)
