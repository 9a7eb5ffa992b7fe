"""The check `streams` of servers: same seed same completion; other seeds, and requests without, independent.

Completions sampled near each other, in time or by their seeds, are compared with completions sampled far
apart. No distribution need be known: pairs of independent completions are distributed as pairs that were put
together by chance.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import scipy

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import first_failure
from spec_oracle.audit.logprobs import difference
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, passed
from spec_oracle.audit.sampling import Effort
from spec_oracle.contracts.completion import Completion, Token
from spec_oracle.servers.checks.bins import Outcome, ServedOutcomes
from spec_oracle.servers.checks.logprobs import WRONG_SCORES
from spec_oracle.servers.checks.reference import compared
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask

# TV of pairs that must be detected, and that is planned for: requests that share randomness have equal
# completions.
SERVER_PAIRS_TV: Final = 0.5
SERVER_PAIRS_WANTED: Final = 0.25
SERVER_PAIRS: Final = 800  # Pairs: with as many far apart they detect `SERVER_PAIRS_WANTED`.
# The same of completions that are seeded, or beside other traffic.
SERVER_ALIKE_TV: Final = 0.3
SERVER_ALIKE_WANTED: Final = 0.2
SERVER_REPEATED_SEEDS: Final = 24  # Seeds that are sent twice.
SERVER_STREAMED: Final = 8  # Seeded completions that are streamed, too.

Tokens: TypeAlias = tuple[Token, ...]
Pair: TypeAlias = tuple[Tokens, Tokens]

LOOK_AT_STREAMS = "look at what a stream sends of a call that accepts drafts: all of its tokens are expected"

AT_ONCE = 64
"""Outcomes between two looks at the time."""

NOISY_DECISIONS = 5
"""Rounded probabilities of draft and target that may tip one token, as for engines."""

GROUPS = 3
"""Completions are put into that many groups by a hash; bins are pairs of groups, equal pairs apart."""


def streams(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge whether seeded requests repeat and are distributed as others, and neighbours are independent.

    Neighbours are requests with seeds s and s + 1, and requests without a seed, one sent after the other.
    """
    rng, near = context.stream("server/streams/seeds"), list[Pair]()

    def part(rate: float) -> Context:
        return replace(context, rate=rate, budget=context.budget / 4)

    def seeded(rate: float) -> CheckResult:
        pairs = _neighbouring_seeds(subject, rng, near)
        ones = lambda count: [one for one, _ in pairs(count)]  # noqa: E731
        return alike("completions of seeded requests", ones, subject, part(rate))

    def neighbours(rate: float) -> CheckResult:
        pairs = _neighbouring_seeds(subject, rng, near)
        return independent("requests with seeds s and s + 1", pairs, subject, part(rate))

    def in_turn(rate: float) -> CheckResult:
        return independent("two requests, one sent after the other", _in_turn(subject), subject, part(rate))

    parts: list[Callable[[float], CheckResult]]
    parts = [partial(repeats, subject, rng, context.budget / 8), seeded, neighbours, in_turn]
    if not subject.server.takes_seeds:
        parts = [in_turn]
    if subject.plan.streams_too:
        parts.insert(1, lambda _: streamed_alike(subject.server, _streamable(subject, rng)))
    found = first_failure(context.rate, *parts)
    if subject.server.takes_seeds:
        return found
    return replace(found, detail=f"the server refuses seeds; {found.detail}")


def repeats(subject: ServerSubject, rng: np.random.Generator, seconds: float, rate: float) -> CheckResult:
    """Send seeds twice, one at a time, the first round for so many seconds; compare the completions.

    Where the probabilities of equal requests differ, a random number may fall between them now and then.
    """
    server, first, until = subject.server, dict[int, Tokens](), time.monotonic() + seconds
    for seed in rng.integers(2**31, size=SERVER_REPEATED_SEEDS).tolist():
        first[seed] = server.complete([first_prompt(subject, seed)])[0].tokens
        if time.monotonic() > until:
            break
    moved = sum(
        server.complete([first_prompt(subject, seed)])[0].tokens != first[seed] for seed in [*first][::-1]
    )
    repeated = f"{len(first) - moved} of {len(first)} requests repeat on the same seed"
    noise = subject.distributions.noise if server.listed and subject.distributions.is_noisy else 0.0
    chance = min(NOISY_DECISIONS * subject.plan.tokens * math.expm1(noise), 1.0)
    if scipy.stats.binom.sf(moved - 1, len(first), chance) <= rate:
        return failed(f"{moved} of {len(first)} requests give another completion on the same seed")
    if moved and chance ** len(first) > rate:  # none of them might repeat
        return inconclusive(f"{repeated}; {subject.distributions.uncertainty}")
    why = "; noise of equal requests explains the others" * bool(moved)
    return passed(f"{repeated}{why}", draws=2 * len(first), how=How.SAMPLED)


def _streamable(subject: ServerSubject, rng: np.random.Generator) -> list[Ask]:
    """Return requests that repeat their completion: greedy ones, and seeded ones if seeds are repeated."""
    server, tokens = subject.server, effort.SERVER_LONGER * subject.plan.tokens
    seeds = rng.integers(2**31, size=SERVER_STREAMED).tolist() if server.repeats_seeds else []
    # Some servers draft nothing where log-probabilities are asked for.
    greedy = [
        Ask(prompt, tokens, temperature=0.0, listed=listed)
        for listed in sorted({0, server.listed})
        for prompt in server.prompts
    ]
    return [*greedy, *(Ask(server.prompts[0], tokens, seed) for seed in seeds)]


def _neighbouring_seeds(
    subject: ServerSubject, rng: np.random.Generator, near: list[Pair]
) -> ServedOutcomes[Pair]:
    """Return pairs of completions with seeds s and s + 1, sent at once; the pairs in ``near`` come first."""
    width = subject.server.client.limits.concurrency

    def asks() -> list[Ask]:
        seeds = rng.integers(2**31 - 1, size=width)
        return [first_prompt(subject, int(seed) + shift) for seed in seeds for shift in (0, 1)]

    return concurrent(subject, asks, lambda some: zip(some[::2], some[1::2], strict=True), near)


def _in_turn(subject: ServerSubject) -> ServedOutcomes[Pair]:
    """Return pairs of completions without a seed, of requests that were sent one after the other."""
    before = list[Tokens]()
    asks = [first_prompt(subject)] * subject.server.client.limits.concurrency

    def pairs(some: Sequence[Tokens]) -> Iterator[Pair]:
        if before:
            yield from zip(before, some, strict=True)
            before.clear()
        else:
            before.extend(some)

    return concurrent(subject, lambda: asks, pairs, [])


def streamed_alike(server: Server, asks: Sequence[Ask]) -> CheckResult:
    """Compare completions that repeat themselves with the same ones streamed: ids, and their number."""
    judged = 0
    for ask in asks:
        whole, again = server.complete([ask, ask])
        wrong = _streamed_otherwise(server, whole, again, server.streamed(ask))
        if wrong:  # not the noise of equal requests, if it is so each time
            (last,) = server.complete([ask])
            is_so = _streamed_otherwise(server, whole, again, server.streamed(ask)) == wrong
            wrong = wrong if is_so else ""
            again = again if last.tokens == again.tokens else last
        if whole.tokens != again.tokens:
            continue
        judged += 1
        if wrong:
            kind = "a greedy completion" if ask.temperature == 0 else f"the completion of seed {ask.seed}"
            return failed(f"{kind} {wrong}", draws=judged, how=How.SAMPLED, do=LOOK_AT_STREAMS)
    if not judged:
        return inconclusive("no streamed completion could be compared: none repeats itself")
    return passed(f"{judged} completions are the same when they are streamed", draws=judged, how=How.SAMPLED)


def _streamed_otherwise(server: Server, whole: Completion, again: Completion, parts: Completion) -> str:
    """Say how a streamed completion differs from the same one not streamed, "" if it does not.

    The token that ends a completion may be shown in one of them only. Without ids, letters are compared.
    Log-probabilities may differ by what those of ``again``, not streamed either, do.
    """
    shown = [one.tokens if parts.tokens else tuple(one.text) for one in (whole, parts)]
    first, second = (one[:-1] if server.ends.intersection(one[-1:]) else one for one in shown)
    if first != second:
        pairs = enumerate(zip(first, second, strict=False))
        place = next((place for place, (one, two) in pairs if one != two), min(len(first), len(second)))
        kind = "letter" if isinstance((*first, *second)[0], str) else "token"
        numbers = f"has {len(second)} {kind}s when it is streamed, {len(first)} when it is not"
        return f"{numbers}; {kind} {place + 1} is the first that differs"
    count, other = parts.counted, whole.counted
    if count is not None and other is not None and abs(count - other) > 1:
        return f"is counted as {count} tokens when it is streamed, as {other} when it is not"
    if parts.reported and abs(len(parts.reported) - len(whole.reported)) > 1:
        numbers = f"{len(parts.reported)} log-probabilities when it is streamed, {len(whole.reported)}"
        return f"has {numbers} when it is not"
    triples = zip(whole.reported, again.reported, parts.reported, strict=False)
    for place, (one, same, two) in enumerate(triples):
        noise = difference(one.logs, same.logs)
        if difference(one.logs, two.logs) > WRONG_SCORES + 2 * noise:
            return f"lists other log-probabilities of token {place + 1} when it is streamed"
    return ""


def first_prompt(subject: ServerSubject, seed: int | None = None) -> Ask:
    """Return the request for a completion of the first prompt."""
    return Ask(subject.server.prompts[0], subject.plan.tokens, seed)


def concurrent(
    subject: ServerSubject,
    asks: Callable[[], Sequence[Ask]],
    of: Callable[[Sequence[Tokens]], Iterable[Outcome]],
    found: list[Outcome],
) -> ServedOutcomes[Outcome]:
    """Return the outcomes ``of`` sets of concurrent requests, sent in turn; those in ``found`` come first."""

    def more(count: int) -> Iterator[Outcome]:
        goal = len(found) + count
        while len(found) < goal:
            yield from of([answer.tokens for answer in subject.server.complete(asks())])
            subject.server.tell("concurrent requests", len(found), 0)

    return ServedOutcomes(more, found)


def independent(
    what: str, pairs: Callable[[int], Sequence[Pair]], subject: ServerSubject, context: Context
) -> CheckResult:
    """Judge whether pairs are distributed as pairs made at random of completions sampled far apart.

    ``what`` names the requests of a pair, such as "seeds s and s + 1".
    """
    far = sampled_apart(subject, context.budget)
    order = context.stream("server/streams/pairs").permutation(len(far))
    random = [(far[i], far[j]) for i, j in zip(order[::2], order[1::2], strict=False)]
    apart = ("pairs of completions that were sampled at different times", ServedOutcomes(None, random))
    sizes = Effort(tv=SERVER_PAIRS_TV, look=AT_ONCE, wanted=SERVER_PAIRS_WANTED)
    near = (f"completions of {what}", pairs)
    result = compared(near, apart, context, sizes, table=_by_groups, cells=2 * GROUPS**2)
    if result.status is not Status.FAILED:
        return result
    return replace(result, detail=f"{result.detail}: such requests share random numbers, or answers")


def alike(
    what: str, some: Callable[[int], Sequence[Tokens]], subject: ServerSubject, context: Context
) -> CheckResult:
    """Judge whether completions are distributed like ordinary ones, sampled without a seed."""
    alone = ServedOutcomes(None, sampled_apart(subject, context.budget))
    sizes = Effort(tv=SERVER_ALIKE_TV, look=AT_ONCE, wanted=SERVER_ALIKE_WANTED)
    return compared((what, some), ("those of ordinary requests", alone), context, sizes)


def sampled_apart(subject: ServerSubject, seconds: float) -> list[Tokens]:
    """Return completions of the first prompt: those of `joint`, and new ones if these are too few."""
    of_joint, more, end = subject.completions.after(0), subject.sampled_apart, time.monotonic() + seconds
    asks = [first_prompt(subject)] * subject.server.client.limits.concurrency
    apart = concurrent(subject, lambda: asks, list, more)
    while len(of_joint) + len(more) < 2 * SERVER_PAIRS and not apart.is_over:
        apart(len(more) + 1 - apart.given)
        if time.monotonic() > end:
            break
    return of_joint + more


def _by_groups(near: Sequence[Pair], random: Sequence[Pair]) -> tuple[Integers, Sequence[str]]:
    counts = np.zeros((2, 2 * GROUPS**2), dtype=np.int64)
    for own, pairs in zip(counts, (near, random), strict=True):
        for one, two in pairs:
            own[_group(one) * GROUPS + _group(two) + GROUPS**2 * (one == two)] += 1
    return counts, ()


def _group(tokens: Tokens) -> int:
    """Return a number that depends on the completion alone, not on where it came."""
    return blake2b(repr(tokens).encode(), digest_size=1).digest()[0] % GROUPS
