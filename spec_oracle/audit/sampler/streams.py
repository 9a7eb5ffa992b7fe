"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent.

A defect of dependence leaves each result right, so that only pairs show it: pairs of results against the
product of the target's distribution with itself. Instances are small, because a pair has the square of the
number of outcomes.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import how_to_accept
from spec_oracle.audit.dependence import CallSizes, equal_requests, independent
from spec_oracle.audit.draws import Calls, at_looks, pair_of_completions, require_affordable, sampled_drafts
from spec_oracle.audit.experiment import first_failure
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts.sampler import new_generator, parameters_of
from spec_oracle.toy import Instance
from verifiers import Paths

STREAMS_ROUNDS: Final = 6  # Looks at pairs of neighbouring seeds.
STREAMS_SEEDS: Final = 60  # Pairs of neighbouring seeds in a round.
STREAMS_BATCH: Final = 8  # Requests of each seed.
STREAMS_REPEATED: Final = 64  # Requests that are repeated with the same seed.

_NO_SEED: Final = "no caller needs the same result on the same seed"
"""Why a function may take its random numbers from elsewhere: they come out right, and cannot be repeated."""


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
    asked = [same] if context.findings.pair is not None else [same, other]
    if "generators" in parameters_of(subject.code.function):
        asked.insert(1, partial(own_generators, subject, context, drafts=drafts, seed=context.seed))
    return first_failure(context.rate, *asked)


@part
def same_seed(
    subject: CalledAsSampler, context: Context, rate: float, *, drafts: Paths, seed: int
) -> CheckResult:
    """Call the code twice with the same seed, and compare what it emits; few requests more often."""
    del context, rate
    count, code = drafts.batch, subject.code
    for _ in range(max(STREAMS_REPEATED // count, 1)):
        once, again = (code(drafts, code.generator(seed)).tokens for _ in range(2))
        if found := _difference(once, again):
            accept = how_to_accept(subject.name, "streams", _NO_SEED)
            do = f"take all random numbers from the generator that is passed; or, {accept}"
            return failed(f"on the same seed, {found}", draws=2 * count, do=do)
    same = f"{count} requests give the same results on the same seed"
    return passed(same, draws=2 * count, how=How.SAMPLED)


def _difference(once: Integers, again: Integers, step: int = 1) -> str:
    """Return what the first of every ``step`` requests that differ emits; nothing where all are equal."""
    other = (once != again)[::step].any(axis=1)
    request = step * int(other.argmax())
    first, second = (",".join(map(str, run[request][run[request] >= 0])) for run in (once, again))
    return f"request {request} emits tokens {first}, and then tokens {second}" if other.any() else ""


@part
def own_generators(
    subject: CalledAsSampler, context: Context, rate: float, *, drafts: Paths, seed: int
) -> CheckResult:
    """Give every second request the same generator of its own beside two shared ones, and compare."""
    del context, rate
    count, code = drafts.batch, subject.code

    def tokens(shared: int) -> Integers:
        def function(*arguments: object) -> Any:
            own = {
                request: new_generator(code.array, seed + request, code.device)
                for request in range(0, count, 2)
            }
            return code.function(*arguments, generators=own)

        return replace(code, function=function)(drafts, code.generator(shared)).tokens

    for turn in range(max(STREAMS_REPEATED // count, 1)):
        if found := _difference(tokens(seed), tokens(seed + 1 + turn), step=2):
            says = "with a generator of its own on the same seed, and another shared generator"
            return failed(f"{says}, {found}", draws=2 * count)
    return passed(f"{count} requests ignore the generators of others", draws=2 * count)


@part
def other_seeds(
    subject: CalledAsSampler, context: Context, rate: float, *, instance: Instance
) -> CheckResult:
    """Judge whether the completions of two neighbouring seeds are independent."""
    code, calls = subject.code, Calls(subject.code, context.seed, "sampler/streams/other seeds")

    def pairs(count: int) -> tuple[Integers, Integers]:
        seeds = calls.rng.integers(2**31, size=math.ceil(count / STREAMS_BATCH)).tolist()

        def completions(shift: int) -> Integers:
            generators = (code.generator(seed + shift) for seed in seeds)
            texts = [calls.completions(instance.floats, STREAMS_BATCH, one) for one in generators]
            return np.concatenate(texts)

        return completions(0), completions(1)

    two = pair_of_completions("completions of seeds s and s + 1", (instance, instance), pairs)
    return at_looks(two, context, rate, STREAMS_SEEDS * STREAMS_BATCH, STREAMS_ROUNDS)


@part
def unrelated_seeds(subject: CalledAsSampler, context: Context, rate: float) -> CheckResult:
    """Judge whether equal requests of neighbouring seeds are independent, whatever their distribution."""
    rng, code = context.stream("sampler/streams/unrelated seeds"), subject.code
    batch, turns = STREAMS_BATCH, STREAMS_ROUNDS * STREAMS_SEEDS

    def draw(design: CallSizes) -> Integers:
        drafts = equal_requests(batch, subject.num_paths)
        seeds = rng.integers(2**31, size=2 * design.half).tolist()
        calls = ([code(drafts, code.generator(seed + shift)).tokens for shift in (0, 1)] for seed in seeds)
        return np.stack([np.concatenate(both) for both in calls])

    found = independent(draw, [CallSizes((2 * batch,), turns // 2)], rate)
    return replace(found, detail=f"seeds s and s + 1, {batch} requests each: {found.detail}")
