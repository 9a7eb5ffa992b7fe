"""The check `joint` of samplers: the output distribution of one call, found in the best way that works.

First every random number is traced, so that all outcomes are run; else code that takes its randomness as an
argument is integrated over it, or run beside a reference rule; else completions are sampled.
"""

from functools import partial

from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampler.integrated import integrated
from spec_oracle.audit.sampler.paired_with_rule import (
    by_same_noise,
    by_same_uniforms,
    compared,
    pair_by_keys,
)
from spec_oracle.audit.sampler.sampled import sampled
from spec_oracle.audit.sampler.subject import SamplerSubject, TakesKeys, TakesNoise, TakesUniforms
from spec_oracle.audit.sampler.traced import traced


def joint(subject: SamplerSubject, context: Context) -> CheckResult:
    """Find the law of one call in the best way that works, by what hands the sampler its randomness.

    Code that can be traced is traced first: what it keeps from call to call would differ else. A way
    that may decide has a part of the rate: all of it if those before it have decided nothing by chance.
    """
    rate, facts, source = context.rate, subject.facts, subject.randomness
    if isinstance(source, TakesKeys):
        ways = [partial(compared, pair_by_keys(source.engine), context, rate)]
    elif isinstance(source, TakesNoise):
        ways = [
            partial(by_same_noise, source.engine, context, rate / 2),
            partial(sampled, subject, context, rate / 2),
        ]
    elif isinstance(source, TakesUniforms):
        ways = [
            partial(integrated, source.code, facts, context, rate / 3),
            partial(by_same_uniforms, source.code, facts, context, rate / 3),
            partial(sampled, subject, context, rate),
        ]
    elif facts.bound is not None:  # samples cannot say that a distribution is within a bound
        ways = [partial(traced, subject, context, rate)]
    elif subject.traceable:
        ways = [
            partial(traced, subject, context, rate),
            partial(sampled, subject, context, context.after_claims(rate).rate),
        ]
    else:
        ways = [partial(sampled, subject, context, rate)]
    return first_that_works(ways)
