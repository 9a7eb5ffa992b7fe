"""Whether requests, and calls, decide by random numbers of their own: read off from one traced run.

Every request has one *open* position, which decides one thing: a drafted token that the target takes with
probability 1/2, else any token of the vocabulary; what comes before is certain, drafts and target alike. A
run then has the probability of what its requests emit, the product over them, if each decides by numbers of
its own. A number that two of them share is decided once: the run has another probability, or, where the
number belongs to a race, cannot be traced. So a few runs show at any size what takes thousands of samples.

A run of another probability is no proof of a defect, since code may decide more than it emits: such shapes
are sampled, and so is code that cannot be traced. Whether the drafted token is taken is a fair coin, and so
is where another one lies, in the lower half of the vocabulary or the upper one: coins of two requests
agree as often as not. For pairs that are equally far apart their products are independent fair signs, so
that the tests are exact.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.again import part
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, passed
from spec_oracle.audit.sampler.dependence import (
    BATCHES,
    CHAINS,
    UNTRACED,
    UNTRACED_CHAIN,
    equal_calls,
    fitted,
    independent,
)
from spec_oracle.audit.sampler.pace import pace
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.contracts import ContractError, SubjectRaisedError, raising
from spec_oracle.contracts.sampler import Handed, checked_emissions, contract_arguments
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import EnumeratedGenerator, sample_call
from spec_oracle.statistics.independence import fair_coin_p_values
from verifiers import Drafts

Coins: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""1 or -1, or 0 for none, [2, B], and the open positions [B]."""

TAKEN: Final = 0.5
"""Probability of the drafted token at an open position."""

_LARGE: Final = 1_000
"""Tokens of a vocabulary that is large."""

_QUICK: Final = 0.05
"""Share of the time that a run may take at these, if larger ones are to be run."""

_SIZES: Final = {"V": "vocab_size", "L": "draft_length", "batch size": "batch"}

_DIFFERENT: Final = 0.01
"""Difference of log probabilities that is none of rounding."""

_RUNS: Final = 3
"""Runs at every shape; other positions are open in each."""

SHAPES: Final = (
    *(Shape(5, 4, batch=3), Shape(5, 9, batch=4), Shape(33, 5, batch=7), Shape(4, 16, batch=5)),
    *(Shape(100, 8, batch=8), Shape(1_025, 2, batch=16), Shape(2_049, 3, batch=5), Shape(4, 6, batch=33)),
    *(Shape(32_769, 1, batch=2), Shape(257, 2, batch=33), Shape(4, 2, batch=130), Shape(131_072, 1, batch=2)),
)
"""Sizes at which a call of several requests is run; sorted by what they cost."""


@dataclass
class Runs:
    """Shapes at which all random numbers were disjoint, or were not known to be, and why."""

    proven: list[Shape] = field(default_factory=list)
    doubtful: dict[Shape, str] = field(default_factory=dict)

    def told(self, result: CheckResult) -> CheckResult:
        """Return the result with a line on what is proven."""
        if not self.proven:
            return result
        sizes = (sorted({getattr(one, axis) for one in self.proven}) for axis in _SIZES.values())
        ranges = ", ".join(f"{name} {a[0]:,} to {a[-1]:,}" for name, a in zip(_SIZES, sizes, strict=True))
        line = f"traced at {len(self.proven)} sizes: all random numbers are disjoint ({ranges})"
        return replace(result, scope=(*result.scope, line))


@part
def independent_calls(
    subject: Any, context: Context, rate: float, *, calls: int, requests: float
) -> CheckResult:
    """Judge whether requests of so many calls share randomness: by samples of equal ones, then traced.

    Batches, or chains of calls, are sampled, some only of code that cannot be traced. Half of the rate is
    for the first ones, a quarter for the last one, and a quarter for requests with one open position.
    """
    always, untraced = (BATCHES, UNTRACED) if calls == 1 else (CHAINS, UNTRACED_CHAIN)
    draw = equal_calls(subject, context.seed)
    result = independent(draw, always, rate / 2, affordable=requests)
    if result.status is Status.FAILED:
        return result
    seconds, runs = effort.UNTRACED_SHARE * context.budget, disjoint(subject, context, calls)
    shapes = [*runs.doubtful][-effort.DISJOINT_SAMPLED :]
    parts: list[Callable[[float], CheckResult]] = []
    if not runs.proven:
        shapes = [Shape(34, 9, batch=size) for size in untraced.sizes]
        more = fitted(draw, [untraced], seconds, pace(subject, context))
        parts.append(lambda rate: independent(draw, more, rate))
    if max((shape.vocab_size for shape in runs.proven), default=0) < _LARGE:
        shapes += [Shape(2_050, 1, batch=size) for size in untraced.sizes[-2:]]
    known = context.results.get("shapes")
    if shapes and not (known and known.status is Status.FAILED):  # coins of a wrong distribution are not fair
        parts.append(lambda rate: _coins_agree(subject, context, calls, shapes, rate, seconds))
    found = [part(rate / 4) for part in parts]
    draws = sum(one.draws for one in (result, *found))
    failure = next((one for one in found if one.status is Status.FAILED), None)
    detail = "; ".join([result.detail, *(one.detail for one in found if one.status is Status.INCONCLUSIVE)])
    return replace(failure or runs.told(replace(result, detail=detail)), draws=draws)


def disjoint(subject: SamplerSubject, context: Context, calls: int, shapes: Sequence[Shape] = SHAPES) -> Runs:
    """Run ``calls`` calls in a row at every shape that the time allows, a few times each.

    Nothing is run of code that could not be traced.
    """
    found, joint = Runs(), context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return found
    seconds = min(effort.DISJOINT_SECONDS, effort.DISJOINT_SHARE * context.budget)
    rng, end = context.stream("sampler/disjoint", calls), time.process_time() + seconds
    slowest, most = 0.0, _QUICK * seconds
    for shape in _RUNS * list(shapes):
        started = time.process_time()
        left = end - started
        if shape in found.doubtful or left <= 0 or (shape.vocab_size > 10 * _LARGE and slowest > most):
            continue  # races take time with the square of the vocabulary
        try:
            reason = _shared(subject, shape, calls, rng, left)
        except (NotTracedError, SubjectRaisedError, ContractError) as error:
            if time.process_time() > end:
                break
            reason = str(error)
        if shape.vocab_size > _LARGE:
            slowest = max(slowest, time.process_time() - started)
        if reason:
            found.doubtful[shape] = reason
        elif shape not in found.proven:
            found.proven.append(shape)
    found.proven = [shape for shape in found.proven if shape not in found.doubtful]
    return found


def _shared(
    subject: SamplerSubject, shape: Shape, calls: int, rng: np.random.Generator, seconds: float
) -> str:
    """Run the calls once; say what contradicts that their random numbers are disjoint, "" for nothing."""
    code, batches = subject.code, [open_requests(shape, subject.num_paths, rng) for _ in range(calls)]
    given = [[Handed(code, array) for array in contract_arguments(drafts)] for drafts, _ in batches]
    generator = EnumeratedGenerator() if code.array == "numpy" else code.generator(0)

    def run() -> list[Any]:
        return [code.function(*(array.fresh() for array in arrays), generator) for arrays in given]

    with raising(math.inf):
        leaf = sample_call(run, rng, seconds)
    expected = 0.0
    for (drafts, where), returned in zip(batches, leaf.result, strict=True):
        emissions, requests = checked_emissions(returned, drafts), np.arange(drafts.batch)
        if (emissions.lengths <= where).any():
            return "a certain draft was refused"
        tokens = emissions.tokens[requests, where]
        expected += float(np.log(drafts.target_probs[requests, 0, where, tokens]).sum())
    if leaf.makes_generators:
        return "it makes generators from seeds"
    return "random numbers are shared" if abs(leaf.log_chance - expected) > _DIFFERENT else ""


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


def _coins_agree(  # noqa: PLR0917
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
