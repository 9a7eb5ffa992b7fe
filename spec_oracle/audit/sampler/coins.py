"""Coins of requests with one open position: how often those of two requests, or of two calls, agree.

Whether the drafted token is taken is a fair coin, and so is where another one lies, in the lower half of the
vocabulary or the upper one: coins of two requests agree as often as not. For pairs that are equally far apart
their products are independent fair signs, so that the tests are exact.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.statistics.independence import fair_coin_p_values
from verifiers import Paths

DISJOINT_CALLS: Final = 3_000
DISJOINT_NUMBERS: Final = 60_000_000

Coins: TypeAlias = NDArray[np.int64]
"""Of N calls, [3, N, B]: two coins, 1 or -1, or 0 for none, and the open positions."""

TAKEN: Final = 0.5
"""Probability of the drafted token at an open position."""

_AT_ONCE: Final = 100_000
"""Probabilities, and pairs of requests, that are made and compared at once: those of many small calls."""


def open_requests(shape: Shape, num_paths: int, rng: np.random.Generator) -> tuple[Paths, NDArray[np.int64]]:
    """Return requests, and the open position, 0..L, of each of them."""
    batch, length, vocab = shape.batch, shape.draft_length, shape.vocab_size
    tokens = rng.integers(vocab, size=(batch, length + 1))
    requests = np.arange(batch)
    target = np.zeros((batch, length + 1, vocab))
    target[requests[:, None], np.arange(length + 1), tokens] = 1.0
    ends = rng.choice([0, length], batch)
    draft, where = (
        target[:, :-1].copy(),
        np.where(rng.random(batch) < 0.5, ends, rng.integers(length + 1, size=batch)),
    )
    drafted, half = tokens[requests, where], vocab // 2
    upper, is_upper = np.arange(vocab) >= half, (drafted >= half)[:, None]
    others = np.where(upper, vocab - half - is_upper, half - ~is_upper)
    target[requests, where] = (1 - TAKEN) / 2 / others
    target[requests, where, drafted] = TAKEN
    several = (np.repeat(array[:, None], num_paths, axis=1) for array in (tokens[:, :-1], draft, target))
    return Paths(*several), where


def coins_agree(  # noqa: PLR0917
    subject: SamplerSubject,
    context: Context,
    calls: int,
    shapes: Sequence[Shape],
    rate: float,
    seconds: float,
) -> CheckResult:
    """Sample requests with one open position each, and count how often the coins of two of them agree.

    For pairs by how far apart they are, in calls (fewer than ``calls``), requests and open positions.
    """
    rng, generator = context.stream("sampler/disjoint/samples", calls), subject.code.generator(context.seed)
    agreed = _Agreed(calls, max(shape.batch for shape in shapes), max(shape.draft_length for shape in shapes))
    draws = 0
    for shape in shapes:
        end, before = time.perf_counter() + seconds / len(shapes), np.empty((3, 0, shape.batch), np.int64)
        for block in _blocks(subject, shape, generator, rng, end):
            draws += block[0].size
            agreed.count(block, block, 0)
            if calls > 1:
                before = np.concatenate([before[:, -1:], block], axis=1)
                agreed.count(before[:, :-1], before[:, 1:], 1)
    keys = agreed.compared()
    if not len(keys):
        return inconclusive("nothing could be sampled", alpha=rate)
    p_values = fair_coin_p_values(*(counts[tuple(keys.T)] for counts in (agreed.sums, agreed.edges)))
    worst = int(p_values.argmin())
    p_value = float(p_values[worst] * len(keys))
    scope = (f"shared numbers: p-value {p_value:.1e}",)
    if p_value > rate:
        return passed("", alpha=rate, draws=draws, how=How.SAMPLED, scope=scope)
    sizes = ", ".join(dict.fromkeys(f"V {one.vocab_size:,}, L {one.draft_length}" for one in shapes))
    distance = agreed.told(keys[worst])
    detail = f"random numbers are shared {distance} ({sizes})"
    return failed(detail, alpha=rate, draws=draws, how=How.SAMPLED, scope=scope)


def _blocks(
    subject: CalledAsSampler, shape: Shape, generator: object, rng: np.random.Generator, end: float
) -> Iterator[Coins]:
    """Call with requests that have one open position each, up to a time; yield the coins of some calls."""
    most, made = min(DISJOINT_CALLS, DISJOINT_NUMBERS // shape.numbers), 0
    at_once, requests = max(_AT_ONCE // max(shape.numbers, shape.batch**2), 1), np.arange(shape.batch)
    while made < most and (made < 2 or time.perf_counter() < end):
        count = min(at_once, most - made, 2 if made < 2 else at_once)
        drafts, where = open_requests(replace(shape, batch=count * shape.batch), subject.num_paths, rng)
        found = []
        for own in np.split(np.arange(len(where)), count):
            if made > 1 and time.perf_counter() > end:
                break
            try:
                emissions = subject.code(_some(drafts, own), generator)
            except SubjectRaisedError:
                most = made  # a size that it does not take; `shapes` says so
                break
            made += 1
            found.append([emissions.tokens[requests, where[own]], emissions.lengths, where[own]])
        if found:
            yield _coins(shape, drafts, np.stack(found, axis=1), rng)


def _some(drafts: Paths, requests: NDArray[np.int64]) -> Paths:
    """Return those requests, which follow each other."""
    rows = slice(requests[0], requests[-1] + 1)
    return Paths(drafts.tokens[rows], drafts.draft_probs[rows], drafts.target_probs[rows])


def _coins(shape: Shape, drafts: Paths, found: NDArray[np.int64], rng: np.random.Generator) -> Coins:
    """Return the coins of calls from their tokens at the open positions, lengths and positions, [3, N, B]."""
    tokens, lengths, where = found
    rows = np.arange(tokens.size), 0, where.ravel()
    drafted = drafts.target_probs[rows].argmax(axis=-1).reshape(tokens.shape)
    is_taken, is_upper = tokens == drafted, tokens >= shape.vocab_size // 2
    coins = np.stack([2 * is_taken - 1, np.where(is_taken, 0, 2 * is_upper - 1), where])
    missing = lengths <= where  # there the target goes on
    coins[0, missing], coins[1, missing] = rng.choice([-1, 1], int(missing.sum())), 0
    return coins


class _Agreed:
    """Sums and numbers of products of two coins that fell, [2, 2, calls, requests, positions].

    By which coins they are, and how far apart: in calls, requests (from minus a batch) and positions.
    """

    def __init__(self, calls: int, batch: int, length: int) -> None:
        self._batch, self._length = batch, length
        size = (2, 2, calls, 2 * batch + 1, 2 * length + 1)
        self.sums, self.edges = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        self._is_compared = np.zeros(size[2:], dtype=bool)

    def count(self, one: Coins, other: Coins, apart: int) -> None:
        """Add the products of the coins of two calls each, or of all pairs of one call."""
        batch, size = one.shape[2], self.sums.shape[3:]
        is_pair = np.ones((batch, batch), dtype=bool)
        rows, columns = np.nonzero(is_pair if apart else np.triu(is_pair, 1))
        (*coins, where), (*others, elsewhere) = one[..., rows], other[..., columns]
        distances = columns - rows + self._batch, elsewhere - where + self._length
        labels = (distances[0] * size[1] + distances[1]).ravel()
        self._is_compared[apart].flat[labels] = True
        for which in product(range(len(coins)), repeat=2):
            products = (coins[which[0]] * others[which[1]]).ravel()
            for counts, values in ((self.sums, products), (self.edges, products != 0)):
                found = np.bincount(labels, values, minlength=math.prod(size))
                counts[*which, apart] += found.astype(np.int64).reshape(size)

    def compared(self) -> NDArray[np.int64]:
        """Return the entries whose coins were compared, [N, 5], however they fell."""
        return np.argwhere(np.broadcast_to(self._is_compared, self.sums.shape))

    def told(self, key: NDArray[np.int64]) -> str:
        """Return in words how far apart the coins of an entry are."""
        _, _, calls, requests, positions = key.tolist()
        apart = f"{calls} calls, {requests - self._batch} requests"
        return f"{apart} and {positions - self._length} positions apart"
