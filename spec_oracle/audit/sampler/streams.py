"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent.

A defect of dependence leaves each result right, so that only pairs show it: pairs of results against the
product of the target's distribution with itself. Instances are small, because a pair has the square of the
number of outcomes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import completion, extended_cells, sampled_drafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.sampler.dependence import CallSizes, equal_requests, independent
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.throughput import require_affordable
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import SamplerCode
from spec_oracle.toy import Instance
from verifiers import Paths

STREAMS_ROUNDS: Final = 6  # Looks at pairs of neighbouring seeds.
STREAMS_SEEDS: Final = 60  # Pairs of neighbouring seeds in a round.
STREAMS_BATCH: Final = 8  # Requests of each seed.
STREAMS_REPEATED: Final = 64  # Requests that are repeated with the same seed.


def streams(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge whether a function repeats itself on the same seed, and on no other.

    One that emits what a rule does with the same uniforms has no other streams than theirs.
    """
    pairs = STREAMS_ROUNDS * STREAMS_SEEDS * STREAMS_BATCH
    require_affordable(subject, context, 2 * STREAMS_REPEATED + 2 * pairs)
    instance = panel(3, 1, subject.num_paths, context.seed)["flat"]
    drafts = sampled_drafts(instance, STREAMS_REPEATED, context.stream("sampler/streams"))
    same = partial(same_seed, subject, context, drafts=drafts, seed=context.seed)
    other = partial(other_seeds, subject, context, instance=instance)
    if context.is_lossy(subject):
        other = partial(unrelated_seeds, subject, context)
    return first_failure(context.rate, *([same] if context.findings.pair is not None else [same, other]))


@part
def same_seed(
    subject: CalledAsSampler, context: Context, rate: float, *, drafts: Paths, seed: int
) -> CheckResult:
    """Call the code twice with the same seed, and compare what it emits; few requests more often."""
    del context, rate
    count, code = drafts.batch, subject.code
    for _ in range(max(STREAMS_REPEATED // count, 1)):
        once, again = (code(drafts, code.generator(seed)).tokens for _ in range(2))
        if (other := (once != again).any(axis=1)).any():
            request = int(other.argmax())
            first, second = (",".join(map(str, run[request][run[request] >= 0])) for run in (once, again))
            detail = f"on the same seed, request {request} emits tokens {first}, and then tokens {second}"
            return failed(detail, draws=2 * count)
    return passed(f"{count} requests give the same results on the same seed", draws=2 * count)


@part
def other_seeds(
    subject: CalledAsSampler, context: Context, rate: float, *, instance: Instance
) -> CheckResult:
    """Judge whether the completions of two neighbouring seeds are independent."""
    rng = context.stream("sampler/streams/other seeds")
    toy = PairToy(subject.code, (instance, instance), rng)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(STREAMS_ROUNDS):
            seeds = rng.integers(2**31, size=STREAMS_SEEDS).tolist()
            first, second = (
                [toy.texts(STREAMS_BATCH, subject.code.generator(seed + shift)) for seed in seeds]
                for shift in (0, 1)
            )
            yield [toy.paired(np.concatenate(first), np.concatenate(second))]

    return judge_rounds(
        "completions of seeds s and s + 1", [toy.law], rounds(), alpha=rate, named=toy.completions
    )


@part
def unrelated_seeds(subject: CalledAsSampler, context: Context, rate: float) -> CheckResult:
    """Judge whether equal requests of neighbouring seeds are independent, whatever their distribution."""
    rng, code = context.stream("sampler/streams/unrelated seeds"), subject.code
    batch, turns = STREAMS_BATCH, STREAMS_ROUNDS * STREAMS_SEEDS

    def draw(design: CallSizes) -> NDArray[np.int64]:
        drafts = equal_requests(batch, subject.num_paths, design.vocab_size, design.draft_length)
        seeds = rng.integers(2**31, size=2 * design.half).tolist()
        calls = ([code(drafts, code.generator(seed + shift)).tokens for shift in (0, 1)] for seed in seeds)
        return np.stack([np.concatenate(both) for both in calls])

    found = independent(draw, [CallSizes((2 * batch,), turns // 2)], rate)
    return replace(found, detail=f"seeds s and s + 1, {batch} requests each: {found.detail}")


class PairToy:
    """The toy on which code is called twice: an instance for either text of a pair; ``law`` is a pair's."""

    def __init__(
        self, code: SamplerCode, instances: tuple[Instance, Instance], rng: np.random.Generator
    ) -> None:
        self._code, self._instances, self._rng = code, instances, rng
        laws = [instance.floats.target.joint(instance.draft_length + 1) for instance in instances]
        self._second, self.law = len(laws[1]), np.outer(*laws).reshape(-1)

    def texts(self, batch: int, generator: object, member: int = 0) -> NDArray[np.int64]:
        """Call the code on fresh drafts of one instance; return the cells of its texts, int [B]."""
        instance = self._instances[member].floats
        emissions = self._code(sampled_drafts(instance, batch, self._rng), generator)
        return extended_cells(instance, emissions.tokens, emissions.lengths, self._rng)

    def completions(self, cell: int) -> str:
        """Return what a person reads for a pair."""
        both = zip(self._instances, divmod(cell, self._second), strict=True)
        return " and then ".join(completion(instance, one) for instance, one in both)

    def paired(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of pairs."""
        return first * self._second + second
