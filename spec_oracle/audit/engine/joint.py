"""The check `joint`: the first tokens that an engine generates are distributed as by target-only decoding.

Completions of two tokens hold what one call can do wrong: an accepted draft, a correction, a bonus token. The
exact distribution of whole generations is traced where it can be, and samples confirm it; else it is sampled.
"""

from functools import partial

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.engine.rounding import rounding_of
from spec_oracle.audit.engine.sampled import sampled_first_tokens
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.engine.traced import traced_first_tokens
from spec_oracle.audit.results import CheckResult
from spec_oracle.contracts.sampler import seed_all


def joint(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge the first tokens after every prompt, in the best way that works, once all were tried.

    What is traced as wrong is confirmed by plain samples; these have a part of the rate, and samples that
    decide without tracing the rest.
    """
    seed_all(context.seed)
    cases = subject.cases(context)
    seconds = min(case.code.trial(case.prompt, effort.ENGINE_LEAST_TOKENS) for case in cases)
    traced = partial(traced_first_tokens, cases, rounding_of(subject, context), context, seconds)
    return first_that_works([traced, partial(sampled_first_tokens, cases, context.after_claims())])
