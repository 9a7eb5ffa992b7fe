"""The check `batch` of servers: concurrent requests are independent, and unchanged by other traffic."""

from collections import Counter
from functools import partial

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.results import CheckResult, Status, failed
from spec_oracle.audit.server import streams
from spec_oracle.audit.server.subject import ServerSubject
from spec_oracle.contracts.server import Ask
from spec_oracle.statistics import homogeneity

CERTAIN = 0.98
"""Probability of a first token, beyond which completions that are all alike are no surprise."""


def batch(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge concurrent requests: equal ones, and beside hotter, colder, longer and seeded ones."""
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
        what = f"completions of concurrent requests, {distance} apart,"
        return streams.judge_pairs(what, near, subject, context, rate)

    return first_failure(rate, *(partial(at, distance) for distance in range(1, width)))


def _may_be_alike(subject: ServerSubject) -> bool:
    """Whether completions of the first prompt may well be all the same, or nothing is known of them."""
    law = subject.distributions.after((0, ())) if subject.server.listed else None
    return law is None or float(law.probabilities[0]) > CERTAIN


def beside_other_traffic(subject: ServerSubject, seconds: float, rate: float) -> CheckResult:
    """Judge whether completions are distributed alike beside hotter, colder, longer and seeded requests."""
    server, tokens, heat = subject.server, subject.plan.tokens, subject.server.sampling.temperature
    first, last = server.prompts[0], server.prompts[-1]
    others = [
        Ask(last, 3 * tokens, temperature=2 * heat),
        Ask(first, tokens, seed=7, temperature=heat / 10),
        Ask(last, 1),
    ]
    ours = max(1, server.client.limits.concurrency // 2)
    asks = [streams.first_prompt(subject), *others] * ours
    found = streams.concurrent(subject, lambda: asks, -(-effort.SERVER_BESIDE // ours), seconds)
    beside = Counter(completion for some in found for completion in some[:: 1 + len(others)])
    alone = Counter(streams.sampled_apart(subject, seconds))
    both = sorted(beside | alone, key=repr)  # not in the order in which they came: that tells the sample
    fit = homogeneity([beside[one] for one in both], [alone[one] for one in both], alpha=rate)
    what = "completions beside other traffic"
    return streams.result_of_two(
        what, "are distributed as alone", "are distributed otherwise than alone", fit, effort.SERVER_BESIDE_TV
    )
