"""The check `streams` of servers: same seed same completion; other seeds, and requests without, independent.

Completions sampled near each other, in time or by their seeds, are compared with completions sampled far
apart. No distribution need be known: pairs of independent completions are distributed as pairs that were put
together by chance.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.results import CheckResult, How, Status, check_result, failed, passed
from spec_oracle.contracts.completion import Token
from spec_oracle.servers.checks import effort
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.contract import Ask, OutOfTimeError
from spec_oracle.statistics import Homogeneity, homogeneity

# TV of pairs that must be detected: requests that share randomness have equal completions.
SERVER_PAIRS_TV: Final = 0.5
SERVER_BESIDE_TV: Final = 0.3  # TV that must be detected beside other traffic.
SERVER_REPEATED_SEEDS: Final = 24  # Seeds that are sent twice.

Tokens: TypeAlias = tuple[Token, ...]
Pair: TypeAlias = tuple[Tokens, Tokens]

GROUPS = 3
"""Completions are put into that many groups by a hash; bins are pairs of groups, equal pairs apart."""


def streams(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge whether seeded requests repeat, alone on the server, and are distributed as others; and whether
    neighbouring seeds, and requests without, are independent.
    """
    server, rng = subject.server, context.stream("server/streams/seeds")
    width, seconds, near = server.client.limits.concurrency, context.budget / 4, list[Pair]()

    def repeats(rate: float) -> CheckResult:
        del rate
        seeds = [int(seed) for seed in rng.integers(2**31, size=SERVER_REPEATED_SEEDS)]
        first: dict[int, Tokens] = {}
        until = time.monotonic() + seconds / 2
        for seed in seeds:
            first[seed] = server.complete([first_prompt(subject, seed)])[0].tokens
            if time.monotonic() > until:
                break
        seeds = list(first)
        moved = sum(
            server.complete([first_prompt(subject, seed)])[0].tokens != first[seed] for seed in seeds[::-1]
        )
        if moved:
            return failed(f"{moved} of {len(seeds)} requests give another completion on the same seed")
        detail = f"{len(seeds)} requests repeat on the same seed"
        if (other := subject.reference) is not None:
            asks = [Ask(other.prompts[0], subject.plan.tokens, seed) for seed in seeds]
            alike = sum(
                answer.tokens == first[seed] for seed, answer in zip(seeds, other.stream(asks), strict=True)
            )
            detail += f", {alike} with the completion of the reference server"
        return passed(detail, draws=2 * len(seeds), how=How.SAMPLED)

    def with_seeds(rate: float) -> CheckResult:
        def asks() -> list[Ask]:
            seeds = rng.integers(2**31 - 1, size=width)
            return [first_prompt(subject, int(seed) + shift) for seed in seeds for shift in (0, 1)]

        for some in concurrent(subject, asks, -(-effort.SERVER_PAIRS // width), seconds):
            near.extend(zip(some[::2], some[1::2], strict=True))
        seeded = [one for one, _ in near]
        return judge_alike("completions of seeded requests", seeded, subject, seconds, rate)

    def neighbours(rate: float) -> CheckResult:
        return judge_pairs("completions of seeds s and s + 1", near, subject, context, rate)

    def in_turn(rate: float) -> CheckResult:
        asks = [first_prompt(subject)] * width
        found = concurrent(subject, lambda: asks, -(-2 * effort.SERVER_PAIRS // width), seconds)
        turns = zip(found[::2], found[1::2], strict=False)
        pairs = [pair for one, two in turns for pair in zip(one, two, strict=True)]
        return judge_pairs("completions of requests in turn", pairs, subject, context, rate)

    return first_failure(context.rate, repeats, with_seeds, neighbours, in_turn)


def first_prompt(subject: ServerSubject, seed: int | None = None) -> Ask:
    """Return the request for a completion of the first prompt."""
    return Ask(subject.server.prompts[0], subject.plan.tokens, seed)


def concurrent(
    subject: ServerSubject, asks: Callable[[], Sequence[Ask]], count: int, seconds: float
) -> list[list[Tokens]]:
    """Send sets of concurrent requests, one after another; at least one set, until the time is up."""
    end, found = time.monotonic() + seconds, list[list[Tokens]]()
    while len(found) < count and (not found or time.monotonic() < end):
        try:
            found.append([answer.tokens for answer in subject.server.complete(asks())])
        except OutOfTimeError:
            if not found:
                raise
            break
        subject.server.tell("concurrent requests", len(found), count)
    return found


def judge_pairs(
    what: str, near: Sequence[Pair], subject: ServerSubject, context: Context, rate: float
) -> CheckResult:
    """Judge whether pairs are distributed as pairs made at random of completions sampled far apart."""
    far = sampled_apart(subject, context.budget / 4)
    order = context.stream("server/streams/pairs").permutation(len(far))
    random = [(far[i], far[j]) for i, j in zip(order[::2], order[1::2], strict=False)]
    fit = homogeneity(_counts(near), _counts(random), alpha=rate)
    return result_of_two(what, "are independent", "are not independent", fit, SERVER_PAIRS_TV)


def judge_alike(
    what: str, found: Sequence[Tokens], subject: ServerSubject, seconds: float, rate: float
) -> CheckResult:
    """Judge whether completions are distributed as those sampled alone, without a seed."""
    some, alone = Counter(found), Counter(sampled_apart(subject, seconds))
    both = sorted(some | alone, key=repr)  # not in the order in which they came: that tells the sample
    fit = homogeneity([some[one] for one in both], [alone[one] for one in both], alpha=rate)
    right, wrong = "are distributed as other ones", "are distributed otherwise than other ones"
    return result_of_two(what, right, wrong, fit, SERVER_BESIDE_TV)


def sampled_apart(subject: ServerSubject, seconds: float) -> list[Tokens]:
    """Return completions of the first prompt: those of `joint`, and new ones as far as these are too few."""
    of_joint, more = subject.completions.after(0), subject.sampled_apart
    if missing := max(0, 2 * effort.SERVER_PAIRS - len(of_joint) - len(more)):
        asks = [first_prompt(subject)] * subject.server.client.limits.concurrency
        found = concurrent(subject, lambda: asks, -(-missing // len(asks)), seconds)
        more += [tokens for some in found for tokens in some]
    return of_joint + more


def result_of_two(what: str, right: str, wrong: str, fit: Homogeneity, coarsest: float) -> CheckResult:
    """Return the result of a comparison, which passes if a TV of ``coarsest`` would have shown."""
    detectable = fit.smallest_detectable_tv
    status, detail = Status.PASSED, f"{what} {right} (a total variation of {detectable:.2g} would show)"
    if not fit.passed:
        status, detail = Status.FAILED, f"{what} {wrong}"
    elif detectable > coarsest:
        status, detail = Status.INCONCLUSIVE, f"{what}: too few to show a defect; raise --budget"
    scope = (f"{what}: {fit}",)
    return check_result(status, detail, how=How.SAMPLED, alpha=fit.alpha, draws=fit.draws[0], scope=scope)


def _counts(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    bins = [_group(one) * GROUPS + _group(two) + GROUPS**2 * (one == two) for one, two in pairs]
    return np.bincount(bins, minlength=2 * GROUPS**2)


def _group(tokens: Tokens) -> int:
    """Return a number that depends on the completion alone, not on where it came."""
    return blake2b(repr(tokens).encode(), digest_size=1).digest()[0] % GROUPS
