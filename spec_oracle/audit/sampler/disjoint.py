"""Whether requests, and calls, decide by random numbers of their own: read off from one traced run.

Every request has one *open* position, which decides one thing: a drafted token that the target takes with
probability 1/2, else any token of the vocabulary; what comes before is certain, drafts and target alike. A
run then has the probability of what its requests emit, the product over them, if each decides by numbers of
its own. A number that two of them share is decided once: the run has another probability, or, where the
number belongs to a race, cannot be traced. So a few runs show at any size what takes thousands of samples.

A run of a smaller probability is no proof of a defect, since code may decide more than it emits: such shapes
are sampled (`spec_oracle.audit.sampler.coins`), and so is code that cannot be traced. One of a larger
probability is: what was emitted is at least as likely. It counts if each of these requests has the right
probability alone, and if the run, made again and again with the same decisions, always emits the same: where
it decides by numbers that are not traced, it does not.
"""

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Numbers
from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.results import CheckResult, How, Status, failed, remarked
from spec_oracle.audit.sampler.coins import coins_agree, open_requests
from spec_oracle.audit.sampler.dependence import (
    BATCHES,
    CHAINS,
    UNTRACED,
    UNTRACED_CHAIN,
    equal_calls,
    fitted,
    independent,
)
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import pace
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.contracts import ContractError, SubjectRaisedError, raising
from spec_oracle.contracts.sampler import Handed, checked_emissions, contract_arguments, parameters_of
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import EnumeratedGenerator, Leaf, sample_call
from verifiers import Paths

# Seconds, and share of the budget, for traced runs that show whether requests, or calls, share numbers.
DISJOINT_SECONDS: Final = 1.0
DISJOINT_SHARE: Final = 0.05
# Sizes that are sampled since numbers may be shared there; calls of each, and probabilities in all of them.
DISJOINT_SAMPLED: Final = 4
UNTRACED_SHARE: Final = 0.15

_LARGE: Final = 1_000
"""Tokens of a vocabulary that is large."""

_QUICK: Final = 0.05
"""Share of the time that a run may take at these, if larger ones are to be run."""

_SIZES: Final = {"V": "vocab_size", "L": "draft_length", "batch size": "batch"}

_MANY: Final = 1_000
"""Requests from which on a batch is too large to be sampled often."""

SHARED: Final = "random numbers are shared"

_DIFFERENT: Final = 0.01
"""Difference of log probabilities that is none of rounding."""

_RUNS: Final = 3
"""Runs at every shape; other positions are open in each."""

SHAPES: Final = (
    *(Shape(5, 4, batch=3), Shape(5, 9, batch=4), Shape(33, 5, batch=7), Shape(4, 16, batch=5)),
    *(Shape(100, 8, batch=8), Shape(1_025, 2, batch=16), Shape(2_049, 3, batch=5), Shape(4, 6, batch=33)),
    *(Shape(32_769, 1, batch=2), Shape(257, 2, batch=33), Shape(4, 2, batch=130), Shape(131_072, 1, batch=2)),
    Shape(4, 16, batch=1_030),
)
"""Sizes at which a call of several requests is run; sorted by what they cost.

The last one takes 17,510 numbers: a pool of 4,096, or of 16,384, comes to its end.
"""


_OPTIONS: Final = ("draft_lengths", "is_greedy")
"""Optional arguments of the second run at every shape."""

_ALONE: Final = 8
"""Requests of a run that are run alone, to see whether each has the right probability."""


@dataclass
class Runs:
    """Shapes at which all random numbers were disjoint, or were not known to be, and why.

    Of ``shared`` ones a run had a larger probability than independent requests have.
    """

    proven: list[Shape] = field(default_factory=list)
    doubtful: dict[Shape, str] = field(default_factory=dict)
    shared: list["_CallsInTurn"] = field(default_factory=list)

    def told(self, result: CheckResult) -> CheckResult:
        """Return the result with a line on what is proven."""
        if not self.proven:
            return result
        sizes = (sorted({getattr(one, axis) for one in self.proven}) for axis in _SIZES.values())
        ranges = ", ".join(f"{name} {a[0]:,} to {a[-1]:,}" for name, a in zip(_SIZES, sizes, strict=True))
        line = f"traced at {len(self.proven)} sizes: all random numbers are disjoint ({ranges})"
        return remarked(result, scope=(*result.remarks.scope, line))


@part
def independent_calls(
    subject: SamplerSubject, context: Context, rate: float, *, calls: int, requests: float
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
    seconds, runs = UNTRACED_SHARE * context.budget, disjoint(subject, context, calls)
    known = context.results.get("shapes")
    is_wrong_alone = context.is_lossy(subject) or (known is not None and known.status is Status.FAILED)
    for run in runs.shared if not is_wrong_alone else ():
        if run.is_always_shared(rate / 4):
            return failed(str(run), alpha=rate, draws=result.measured.draws, how=How.PROVEN)
    shapes = [shape for shape in runs.doubtful if shape.batch < _MANY][-DISJOINT_SAMPLED:]
    parts: list[Callable[[float], CheckResult]] = []
    if not runs.proven:
        shapes = [Shape(34, 9, batch=size) for size in untraced.sizes]
        more = fitted(draw, [untraced], seconds, pace(subject, context))
        parts.append(lambda rate: independent(draw, more, rate))
    if max((shape.vocab_size for shape in runs.proven), default=0) < _LARGE:
        shapes += [Shape(2_050, 1, batch=size) for size in untraced.sizes[-2:]]
    if shapes and not is_wrong_alone:  # coins of a wrong distribution are not fair
        parts.append(lambda rate: coins_agree(subject, context, calls, shapes, rate, seconds))
    found = [part(rate / 4) for part in parts]
    draws = sum(one.measured.draws for one in (result, *found))
    failure = next((one for one in found if one.status is Status.FAILED), None)
    detail = "; ".join([result.detail, *(one.detail for one in found if one.status is Status.INCONCLUSIVE)])
    chosen = failure or runs.told(replace(result, detail=detail))
    return replace(chosen, measured=replace(chosen.measured, draws=draws))


def disjoint(subject: SamplerSubject, context: Context, calls: int, shapes: Sequence[Shape] = SHAPES) -> Runs:
    """Run ``calls`` calls in a row at every shape that the time allows, a few times each.

    Nothing is run of code that could not be traced.
    """
    found, joint = Runs(), context.results.get("joint")
    if not subject.traceable or (joint is not None and joint.how is How.SAMPLED):
        return found
    seconds = min(DISJOINT_SECONDS, DISJOINT_SHARE * context.budget)
    rng, end = context.stream("sampler/disjoint", calls), time.process_time() + seconds
    slowest, most = 0.0, _QUICK * seconds
    options = subject.num_paths == 1 and {*_OPTIONS} & {*parameters_of(subject.code.function)}
    for number, shape in enumerate(_RUNS * list(shapes)):
        started = time.process_time()
        left = end - started
        if shape in found.doubtful or left <= 0 or (shape.vocab_size > 10 * _LARGE and slowest > most):
            continue  # races take time with the square of the vocabulary
        mixed = frozenset(options or () if number // len(shapes) == 1 else ())
        run = _CallsInTurn(subject, shape, calls, mixed, int(rng.integers(2**32)))
        try:
            reason = run.doubt(left)
        except (NotTracedError, SubjectRaisedError, ContractError) as error:
            if time.process_time() > end:
                break
            reason = str(error)
        if shape.vocab_size > _LARGE:
            slowest = max(slowest, time.process_time() - started)
        if reason:
            found.doubtful[shape] = reason
            found.shared += [run] if reason == SHARED else []
        elif shape not in found.proven:
            found.proven.append(shape)
    found.proven = [shape for shape in found.proven if shape not in found.doubtful]
    return found


@dataclass(frozen=True)
class _CallsInTurn:
    """Calls in a row at a shape, with the decisions of a seed, and some of the optional arguments."""

    subject: SamplerSubject
    shape: Shape
    calls: int
    options: frozenset[str]
    seed: int

    def doubt(self, seconds: float) -> str:
        """Make the calls; say what contradicts that their random numbers are disjoint, "" for nothing."""
        batches, leaf = self._leaf(seconds)
        expected = 0.0
        for batch, returned in zip(batches, leaf.result, strict=True):
            emissions, requests = checked_emissions(returned, batch.drafts), np.arange(self.shape.batch)
            if (emissions.lengths <= batch.where).any():
                return "a certain draft was refused"
            tokens = emissions.tokens[requests, batch.where]
            chances = batch.drafts.target_probs[requests, 0, batch.where, tokens]
            greedy = batch.options.get("is_greedy", False)  # a likeliest token is no decision
            expected += float(np.log(np.where(greedy, 1.0, chances)).sum())
        if leaf.makes_generators:
            return "it makes generators from seeds"
        more = leaf.log_chance - expected
        return SHARED if more > _DIFFERENT else "it decides more than it emits" if more < -_DIFFERENT else ""

    def is_always_shared(self, rate: float) -> bool:
        """Whether a run that was too likely is one: alone each request is right, and the run is repeatable.

        Numbers that were not traced fall as they did with probability 1/2 at most.
        """
        alone = replace(self, shape=replace(self.shape, batch=1), calls=1)
        try:
            if any(replace(alone, seed=self.seed + number).doubt(math.inf) for number in range(_ALONE)):
                return False
            results = (self._leaf(math.inf)[1].result for _ in range(2 + math.ceil(-math.log2(rate))))
            first = next(results)
            return all(_are_equal(first, other) for other in results)
        except (NotTracedError, SubjectRaisedError, ContractError):
            return False

    def _leaf(self, seconds: float) -> tuple[list["_Batch"], Leaf[list[object]]]:
        """Return the batches, and what the calls come to."""
        code, rng = self.subject.code, np.random.default_rng(self.seed)
        batches = [_batch(self.shape, self.subject.num_paths, self.options, rng) for _ in range(self.calls)]
        given = [
            (
                [Handed(code, array) for array in contract_arguments(batch.drafts)],
                {name: Handed(code, array) for name, array in batch.options.items()},
            )
            for batch in batches
        ]
        generator = EnumeratedGenerator() if code.array == "numpy" else code.generator(0)

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
        return (
            f"requests decide by the same random numbers: traced in {several} of {self.shape.batch:,} "
            f"requests{options} (V {self.shape.vocab_size:,}, L {self.shape.draft_length})"
        )


@dataclass(frozen=True)
class _Batch:
    """Requests with an open position each, 0..L [B], and optional arguments by name, each [B]."""

    drafts: Paths
    where: NDArray[np.int64]
    options: dict[str, Numbers]


def _batch(shape: Shape, num_paths: int, options: Collection[str], rng: np.random.Generator) -> _Batch:
    """Return requests, of which half are greedy, and drafts that end behind the open position or later."""
    drafts, where = open_requests(shape, num_paths, rng)
    given: dict[str, Numbers] = {}
    if "draft_lengths" in options:
        given["draft_lengths"] = rng.integers(where, shape.draft_length, endpoint=True)
    if "is_greedy" in options:
        given["is_greedy"] = rng.random(shape.batch) < 0.5
    return _Batch(drafts, where, given)


def _are_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether calls returned the same tokens."""
    return all(np.array_equal(np.asarray(a[0]), np.asarray(b[0])) for a, b in zip(one, other, strict=True))
