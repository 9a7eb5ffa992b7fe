"""Whether requests, and calls, decide by random numbers of their own.

Samples of equal requests show it (`spec_oracle.audit.sampler.dependence`), at small sizes of all code, and at
long drafts and in large vocabularies of code that could not be traced there. One traced run shows it at any
size. In such a run every request has one *open* position, which decides one thing: a drafted token that the
target takes with probability 1/2, else any token of the vocabulary; all else is certain, drafts and target
alike. A run then has the probability of what its requests emit, the product over them, if each decides by
numbers of its own. A number that two of them share is decided once, so that the run is too likely.

Such a run counts if it, made again and again with the same decisions, always emits the same: where it
decides by numbers that are not traced, it does not. Numbers are shared if each request has the right
probability where it alone has an open position; else the code is wrong in batches of that size. A run that is
too unlikely is no proof of a defect, since code may decide more than it emits.
"""

import math
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Numbers
from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.results import CheckResult, How, Status, failed, remarked
from spec_oracle.audit.sampler.dependence import (
    BATCHES,
    CHAINS,
    UNTRACED,
    UNTRACED_CHAINS,
    equal_calls,
    fitted,
    independent,
)
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import pace
from spec_oracle.audit.sampler.tracer import GENERATOR_SEED
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.contracts import ContractError, SubjectRaisedError, raising
from spec_oracle.contracts.sampler import Handed, new_generator, parameters_of
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import Leaf, sample_call
from verifiers import Paths

# Seconds, and share of the budget, for traced runs that show whether requests, or calls, share numbers.
DISJOINT_SECONDS: Final = 1.0
DISJOINT_SHARE: Final = 0.05
UNTRACED_SHARE: Final = 0.15  # Share of the budget for samples at sizes that were not traced.

_RUNS: Final = 3
"""Runs at every shape; other positions are open in each."""

SHAPES: Final = (
    *(Shape(5, 4, batch=3), Shape(5, 9, batch=4), Shape(33, 5, batch=7), Shape(4, 16, batch=5)),
    *(Shape(100, 8, batch=8), Shape(1_025, 2, batch=16), Shape(2_049, 3, batch=5), Shape(4, 6, batch=33)),
    *(Shape(257, 2, batch=33), Shape(4, 2, batch=130), Shape(4, 16, batch=1_030)),
    *(Shape(32_769, 1, batch=2), Shape(131_072, 1, batch=2)),
)
"""Sizes at which a call of several requests is run; races take long at the last ones.

A batch of 1,030 takes 17,510 numbers: a pool of 4,096, or of 16,384, comes to its end.
"""

_LARGE: Final = 1_000
"""Tokens of a large vocabulary, in which samples are taken unless one was traced."""

_OPTIONS: Final = {"draft_lengths", "is_greedy"}
"""Optional arguments of the second run at every shape."""

_ROUNDING: Final = 0.01
"""Most that rounding changes the log probability of a run."""

_PAIRS: Final = 60
"""So many pairs of requests are run, to name one that shares a number."""

_ALONE: Final = 8
"""Requests of a run that decide alone in their batch, to see whether each has the right probability."""


@part
def independent_calls(
    subject: SamplerSubject, context: Context, rate: float, *, calls: int, requests: float
) -> CheckResult:
    """Judge whether requests of so many calls share randomness: equal ones by samples, others traced.

    Half of the rate is for samples of small requests, a quarter for traced runs, and a quarter for samples of
    long drafts and large vocabularies.
    """
    small, untraced = (BATCHES, UNTRACED) if calls == 1 else (CHAINS, UNTRACED_CHAINS)
    draw = equal_calls(subject, context.seed)
    result = independent(draw, small, rate / 2, affordable=requests)
    if result.status is Status.FAILED:
        return result
    runs, shapes = disjoint(subject, context, calls), context.results.get("shapes")
    is_wrong_alone = context.is_lossy(subject) or (shapes is not None and shapes.status is Status.FAILED)
    for run in runs.shared if not is_wrong_alone else ():
        if fault := run.fault(rate / 4 / len(runs.shared)):
            return failed(fault, alpha=rate, draws=result.measured.draws, how=How.PROVEN)
    long, wide = untraced
    designs = [long] if runs.doubtful or not runs.proven else []
    designs += [wide] if max((shape.vocab_size for shape in runs.proven), default=0) < _LARGE else []
    if not designs:
        return runs.described(result)
    designs = fitted(draw, designs, UNTRACED_SHARE * context.budget, pace(subject, context))
    more = independent(draw, designs, rate / 4)
    if more.status is Status.INCONCLUSIVE:
        result = replace(result, detail=f"{result.detail}; {more.detail}")
    chosen = more if more.status is Status.FAILED else runs.described(result)
    draws = result.measured.draws + more.measured.draws
    return replace(chosen, measured=replace(chosen.measured, draws=draws))


@dataclass
class Runs:
    """Shapes at which calls were traced.

    At ``doubtful`` ones a run could not be traced, or did not have the probability that independent requests
    have; ``shared`` are runs of a larger one.
    """

    tried: list[Shape] = field(default_factory=list)
    doubtful: set[Shape] = field(default_factory=set)
    shared: list["_CallsInTurn"] = field(default_factory=list)

    @property
    def proven(self) -> list[Shape]:
        """Shapes at which all random numbers were disjoint."""
        return [shape for shape in dict.fromkeys(self.tried) if shape not in self.doubtful]

    def described(self, result: CheckResult) -> CheckResult:
        """Return the result with a line on what is proven."""
        if not self.proven:
            return result
        axes = {"V": "vocab_size", "L": "draft_length", "batch size": "batch"}
        sizes = {name: [getattr(shape, axis) for shape in self.proven] for name, axis in axes.items()}
        ranges = ", ".join(f"{name} {min(some):,} to {max(some):,}" for name, some in sizes.items())
        line = f"traced at {len(self.proven)} sizes: all random numbers are disjoint ({ranges})"
        return remarked(result, scope=(*result.remarks.scope, line))


def disjoint(subject: SamplerSubject, context: Context, calls: int, shapes: Sequence[Shape] = SHAPES) -> Runs:
    """Run ``calls`` calls in a row at every shape that the time allows, a few times each.

    Nothing is run of code that could not be traced.
    """
    found, joint = Runs(), context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return found
    seconds = min(DISJOINT_SECONDS, DISJOINT_SHARE * context.budget)
    rng, end = context.stream("sampler/disjoint", calls), time.process_time() + seconds
    optional = _OPTIONS & {*parameters_of(subject.code.function)} if subject.num_paths == 1 else frozenset()
    # Races take time with the square of the vocabulary: large ones come after two runs of the others.
    turns = sorted(product(range(_RUNS), shapes), key=lambda turn: turn[0] + 1.5 * (turn[1].vocab_size > 1e4))
    for number, shape in turns:
        left = end - time.process_time()
        if left <= 0:
            break
        if shape in found.doubtful:
            continue
        options = frozenset(optional if number == 1 else ())
        run = _CallsInTurn(subject, shape, calls, options, int(rng.integers(2**32)))
        try:
            excess = run.excess(left)
        except (NotTracedError, SubjectRaisedError, ContractError):
            if time.process_time() > end:
                break
            excess = -math.inf
        found.tried.append(shape)
        if abs(excess) > _ROUNDING:
            found.doubtful.add(shape)
            found.shared += [run] if excess > 0 else []
    return found


@dataclass(frozen=True)
class _Batch:
    """Requests with an open position each, 0..L [B], and optional arguments by name, each [B]."""

    drafts: Paths
    where: NDArray[np.int64]
    options: dict[str, Numbers]


@dataclass(frozen=True)
class _CallsInTurn:
    """Calls in a row at a shape, with the decisions of a seed, and some of the optional arguments.

    Of each call ``only`` some requests have an open position, None for all requests.
    """

    subject: SamplerSubject
    shape: Shape
    calls: int
    options: frozenset[str]
    seed: int
    only: tuple[int, ...] | None = None

    def excess(self, seconds: float) -> float:
        """Return by how much the log probability of the run is above that of independent requests.

        Raises `NotTracedError` where that says nothing of what they share, besides what the code raises.
        """
        batches, leaf = self._leaf(seconds)
        expected, requests = 0.0, np.arange(self.shape.batch)
        for batch, returned in zip(batches, leaf.result, strict=True):
            emissions = self.subject.code.checked(returned, batch.drafts)
            if (emissions.lengths <= batch.where).any():
                raise NotTracedError("a certain draft was refused")
            tokens = emissions.tokens[requests, batch.where]
            chances = batch.drafts.target_probs[requests, 0, batch.where, tokens]
            greedy = batch.options.get("is_greedy", False)  # a likeliest token is no decision
            with np.errstate(divide="ignore"):  # what is certain may come out otherwise
                expected += float(np.log(np.where(greedy, 1.0, chances)).sum())
        return leaf.log_chance - expected

    def fault(self, rate: float) -> str:
        """Say what a run that was too likely proves, "" for nothing.

        Numbers that were not traced fall as they did with probability 1/2 at most.
        """
        requests = np.unique(np.linspace(0, self.shape.batch - 1, _ALONE).astype(int)).tolist()
        try:
            for one in requests:
                alone = replace(self, only=(one,), calls=1)
                if abs(excess := alone.excess(math.inf)) > _ROUNDING:
                    return str(alone) if excess > 0 and alone.is_repeatable(rate) else ""
            return self.shared_by() or str(self) if self.is_repeatable(rate) else ""
        except (NotTracedError, SubjectRaisedError, ContractError):
            return ""

    def shared_by(self) -> str:
        """Name two requests that decide by one random number, "" if none are found among a few.

        In one call they are two requests, near ones first; in two calls the same request of each.
        """
        batch, where = self.shape.batch, [one.where for one in self._leaf(math.inf)[0]]
        pairs = ((one, one + apart) for apart in range(1, batch) for one in range(batch - apart))
        asked: Iterable[tuple[int, ...]] = pairs if self.calls == 1 else ((one,) for one in range(batch))
        for some in islice(asked, _PAIRS):
            with suppress(NotTracedError, SubjectRaisedError, ContractError):
                if replace(self, only=some).excess(math.inf) <= _ROUNDING:
                    continue
                first, last = some[0], some[-1]
                later, earlier = (" of the second call", " of the first") if self.calls > 1 else ("", "")
                return (
                    f"request {last}, position {where[-1][last]}{later} uses the random number of request "
                    f"{first}, position {where[0][first]}{earlier} (V {self.shape.vocab_size:,}, "
                    f"L {self.shape.draft_length}, {batch:,} requests a call)"
                )
        return ""

    def is_repeatable(self, rate: float) -> bool:
        """Whether the calls, with the same decisions, return the same every time."""
        results = (self._leaf(math.inf)[1].result for _ in range(2 + math.ceil(-math.log2(rate))))
        first = next(results)
        return all(_are_equal(first, other) for other in results)

    def _leaf(self, seconds: float) -> tuple[list[_Batch], Leaf[list[object]]]:
        """Return the batches, and what the calls come to."""
        code, rng, paths = self.subject.code, np.random.default_rng(self.seed), self.subject.num_paths
        batches = [_batch(self.shape, paths, self.options, rng, self.only) for _ in range(self.calls)]
        given = [
            (
                [Handed(code, array) for array in code.arguments(batch.drafts)],
                {name: Handed(code, array) for name, array in batch.options.items()},
            )
            for batch in batches
        ]
        generator = new_generator(code.array, GENERATOR_SEED)

        def run() -> list[object]:
            return [
                code.function(
                    *(array.fresh() for array in arrays),
                    generator,
                    **{name: array.fresh() for name, array in options.items()},
                )
                for arrays, options in given
            ]

        with raising(math.inf):
            return batches, sample_call(run, rng, seconds)

    def __str__(self) -> str:
        several = "a call" if self.calls == 1 else f"{self.calls} calls"
        options = f" with {' and '.join(sorted(self.options))}" if self.options else ""
        what, where = "requests decide by the same random numbers", ""
        if self.only is not None:
            what = "a token is more likely than its target says"
            where = f", of which request {self.only[0]} alone is not certain"
        return (
            f"{what}: traced in {several} of {self.shape.batch:,} requests{options} "
            f"(V {self.shape.vocab_size:,}, L {self.shape.draft_length}){where}"
        )


def _batch(
    shape: Shape,
    num_paths: int,
    options: Collection[str],
    rng: np.random.Generator,
    only: tuple[int, ...] | None,
) -> _Batch:
    """Return requests, of which half are greedy, and drafts that end behind the open position or later.

    ``only`` some of them have an open position, None for all.
    """
    batch, length, vocab = shape.batch, shape.draft_length, shape.vocab_size
    requests, tokens = np.arange(batch), rng.integers(vocab, size=(batch, length + 1))
    target = np.zeros((batch, length + 1, vocab))
    target[requests[:, None], np.arange(length + 1), tokens] = 1.0
    draft, ends = target[:, :-1].copy(), rng.choice([0, length], batch)
    where = np.where(rng.random(batch) < 0.5, ends, rng.integers(length + 1, size=batch))
    is_open = slice(None) if only is None else list(only)
    opened, at = requests[is_open], where[is_open]
    target[opened, at] = 0.5 / (vocab - 1)
    target[opened, at, tokens[opened, at]] = 0.5
    paths = Paths(
        *(np.repeat(array[:, None], num_paths, axis=1) for array in (tokens[:, :-1], draft, target))
    )
    given: dict[str, Numbers] = {}
    if "draft_lengths" in options:
        given["draft_lengths"] = rng.integers(where, length, endpoint=True)
    if "is_greedy" in options:
        given["is_greedy"] = rng.random(batch) < 0.5
    return _Batch(paths, where, given)


def _are_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether calls returned the same tokens."""
    return all(np.array_equal(np.asarray(a[0]), np.asarray(b[0])) for a, b in zip(one, other, strict=True))
