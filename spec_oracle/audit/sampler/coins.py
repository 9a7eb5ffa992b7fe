"""Coins of requests with one open position: how often those of two requests, or of two calls, agree.

Whether the drafted token is taken is a fair coin, and so is where another one lies, in the lower half of the
vocabulary or the upper one: coins of two requests agree as often as not. For pairs that are equally far apart
their products are independent fair signs, so that the tests are exact.
"""

import math
import time
from collections.abc import Sequence
from itertools import product
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.statistics.independence import fair_coin_p_values
from verifiers import Drafts

Coins: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""1 or -1, or 0 for none, [2, B], and the open positions [B]."""

TAKEN: Final = 0.5
"""Probability of the drafted token at an open position."""


def open_requests(shape: Shape, num_paths: int, rng: np.random.Generator) -> tuple[Drafts, NDArray[np.int64]]:
    """Return requests, and the open position, 0..L, of each of them."""
    batch, length, vocab = shape.batch, shape.draft_length, shape.vocab_size
    tokens = rng.integers(vocab, size=(batch, length + 1))
    target = np.zeros((batch, length + 1, vocab))
    np.put_along_axis(target, tokens[..., None], 1.0, axis=-1)
    ends = rng.choice([0, length], batch)
    draft, where = (
        target[:, :-1].copy(),
        np.where(rng.random(batch) < 0.5, ends, rng.integers(length + 1, size=batch)),
    )
    requests = np.arange(batch)
    upper = np.arange(vocab) >= vocab // 2
    drafted = tokens[requests, where]
    for half in (upper, ~upper):
        others = half & (np.arange(vocab) != drafted[:, None])
        target[requests, where] += others * (1 - TAKEN) / 2 / others.sum(axis=1, keepdims=True)
    target[requests, where, drafted] = TAKEN
    several = (np.repeat(array[:, None], num_paths, axis=1) for array in (tokens[:, :-1], draft, target))
    return Drafts(*several), where


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
    code, rng = subject.code, context.stream("sampler/disjoint/samples", calls)
    generator, draws = code.generator(context.seed), 0
    agreed = _Agreed(calls, max(shape.batch for shape in shapes), max(shape.draft_length for shape in shapes))
    for shape in shapes:
        end, before = time.perf_counter() + seconds / len(shapes), None
        most = min(effort.DISJOINT_CALLS, effort.DISJOINT_NUMBERS // shape.numbers)
        for number in range(most):
            if number > 1 and time.perf_counter() > end:
                break
            drafts, where = open_requests(shape, subject.num_paths, rng)
            try:
                emissions, requests = code(drafts, generator), np.arange(shape.batch)
            except SubjectRaisedError:
                break  # a size that it does not take; `shapes` says so
            tokens = emissions.tokens[requests, where]
            drafted = drafts.target_probs[requests, 0, where].argmax(axis=-1)
            is_taken, is_upper = tokens == drafted, tokens >= shape.vocab_size // 2
            coins = np.stack([2 * is_taken - 1, np.where(is_taken, 0, 2 * is_upper - 1)])
            missing = emissions.lengths <= where  # there the target goes on
            coins[0, missing], coins[1, missing] = rng.choice([-1, 1], int(missing.sum())), 0
            draws += shape.batch
            agreed.count((coins, where), (coins, where), 0)
            if calls > 1 and before is not None:
                agreed.count(before, (coins, where), 1)
            before = coins, where
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
        """Add the products of the coins, [2, B], of two calls, or of all pairs of one call."""
        (coins, where), (others, elsewhere) = one, other
        requests = np.arange(len(where))
        is_pair = requests > requests[:, None] if not apart else np.ones((len(where),) * 2, dtype=bool)
        rows, columns = np.nonzero(is_pair)
        distances = columns - rows + self._batch, elsewhere[columns] - where[rows] + self._length
        self._is_compared[apart][distances] = True
        shape = self.sums.shape[3:]
        labels = np.ravel_multi_index(distances, shape)
        for which in product(range(len(coins)), repeat=2):
            products = coins[which[0], rows] * others[which[1], columns]
            for counts, values in ((self.sums, products), (self.edges, products != 0)):
                found = np.bincount(labels, values, minlength=math.prod(shape))
                counts[*which, apart] += found.astype(np.int64).reshape(shape)

    def compared(self) -> NDArray[np.int64]:
        """Return the entries whose coins were compared, [N, 5], however they fell."""
        return np.argwhere(np.broadcast_to(self._is_compared, self.sums.shape))

    def told(self, key: NDArray[np.int64]) -> str:
        """Return in words how far apart the coins of an entry are."""
        _, _, calls, requests, positions = key.tolist()
        apart = f"{calls} calls, {requests - self._batch} requests"
        return f"{apart} and {positions - self._length} positions apart"
