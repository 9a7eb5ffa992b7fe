"""The check `joint` of samplers: the output distribution of one call, found in the best way that works.

First every random number is traced, so that all outcomes are run; else code that takes its randomness as an
argument is integrated over it, or run beside a reference rule; else completions are sampled. What is traced
is confirmed by uninstrumented samples. Where samples decide, all instances are screened; those that detect
most are sampled often enough for the G test to detect any defect of total variation `effort.SAMPLER_TV`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.draws import Requests, Sampler, confirmed_by_samples
from spec_oracle.audit.exact_comparison import judge_laws, never_happened, scope_of
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    Findings,
    How,
    LawResult,
    NoEvidenceError,
    Status,
    check_result,
    with_findings,
)
from spec_oracle.audit.sampler.branch_tracing import require_alike
from spec_oracle.audit.sampler.confirm import confirm_breach, confirmed_claim, require_decisions
from spec_oracle.audit.sampler.integrated import integrated
from spec_oracle.audit.sampler.paired_with_rule import (
    by_same_noise,
    by_same_uniforms,
    compared,
    pair_by_keys,
)
from spec_oracle.audit.sampler.subject import SamplerSubject, TakesKeys, TakesNoise, TakesUniforms
from spec_oracle.audit.sampler.tracer import Known, law_after, laws_after, traced_law
from spec_oracle.audit.sampling import judge_samples
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.statistics import total_variation_interval


def joint(subject: SamplerSubject, context: Context) -> CheckResult:
    """Find the law of one call in the best way that works, by what hands the sampler its randomness.

    Code that can be traced is traced first: what it keeps from call to call would differ else. A way
    that may decide has a part of the rate: all of it if those before it have decided nothing by chance.
    """
    rate, facts, source = context.rate, subject.facts, subject.randomness
    ways: list[Callable[[], CheckResult]]
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


CONFIRMING_SHARE: Final = 0.05  # Share of the budget that these samples may take.


def traced(subject: SamplerSubject, context: Context, rate: float) -> LawResult:
    """Trace the sampler's random numbers on every instance, then compare with uninstrumented samples.

    Raises `NoEvidenceError` where the law would not be exact, where the code raises while it is traced, and
    where samples contradict what was found. A defect is confirmed at its own size before it is one.
    """
    code, facts, end = subject.code, subject.facts, time.process_time() + context.budget
    instances, failure, is_output = instances_for(context, subject.num_paths), "", True
    known: Known = {}
    laws: dict[str, EmissionLaw] = {}
    try:
        for name, instance in instances.items():
            laws[name] = traced_law(code, instance, known, end=end)
    except ContractError as error:
        confirm_breach(code, error, replace(context, rate=rate))
        failure = f"instance {[*instances][len(laws)]!r}: {error}"
        is_output = isinstance(error, ImpossibleOutputError)
    except (NotTracedError, SubjectRaisedError) as error:
        instead = "the declared bound is not decided" if facts.bound else "sampled instead"
        raise NoEvidenceError(f"could not trace the random numbers, {instead}: {error}") from None
    # Whoever needs more laws limits the time.
    anywhere = partial(traced_law, code, known=known)
    after = partial(laws_after, code, known=known)
    found = judge_laws(laws, instances, facts, anywhere, how="traced", failure=failure, after=after)
    if not is_output and found.findings.worst is None:
        found = replace(found, cause=Cause.BROKEN_CONTRACT)
    if not laws:
        return found
    if not failure and (worst := found.findings.worst):
        require_decisions([*known.values()], [*laws.values()])
        line = confirmed_claim(
            subject, laws[worst], context, rate, partial(traced_law, code, instances[worst])
        )
    else:
        require_alike(
            code, next(iter(instances.values())), context.stream("sampler/joint/watched"), law_after
        )
        seconds = CONFIRMING_SHARE * context.budget
        line = confirmed_by_samples(code, laws, rate, context.seed, seconds)
    remarks = replace(found.remarks, scope=(*found.remarks.scope, line))
    return replace(found, remarks=remarks)


def sampled(
    subject: CalledAsSampler,
    context: Context,
    rate: float,
    *,
    drafted: Requests | None = None,
    names: Sequence[str] = (),
) -> LawResult:
    """Sample the extended law of one call on every instance of the context, within its budget.

    ``drafted`` as in `Sampler`; ``names`` are the instances of the G test, none for the main ones.
    """
    instances = instances_for(context, subject.num_paths)
    sampler = Sampler(subject.code, context.seed, "sampler/joint/samples", drafted)
    first = next(iter(instances.values()))
    batch = Sampler(subject.code, context.seed, "sampler/joint/pace", drafted).most_within(
        effort.SCREENING_SHARE * context.budget / len(instances),
        first,
        start=effort.SAMPLER_PILOT,
        most=effort.SAMPLER_BATCH,
    )
    screened = {name: sampler.on(instance) for name, instance in instances.items()}
    decision = judge_samples(
        screened,
        lambda name: sampler.on(instances[name]),
        rate=rate,
        seconds=context.budget,
        tv=effort.SAMPLER_TV,
        batch=batch,
        turns=effort.SAMPLER_FOLLOW_UPS,
        most=10 * effort.SAMPLER_BATCH,
        names=names or main_instances(instances),
        admitted=context.admitted,
    )
    samples = {name: sample for name, sample in {**screened, **decision.fresh}.items() if sample.draws}
    draws = sum(sample.draws for sample in samples.values())
    missing = never_happened(sample.lengths for sample in samples.values())
    tv = f"a total variation of {decision.detectable_tv:.3g}"
    status, detail = Status.PASSED, f"no defect in {draws:,} samples ({tv} would show)"
    if not decision.passed:
        status, detail = Status.FAILED, f"instance {decision.worst!r}: {decision.reason}"
    elif missing:
        status, detail = Status.INCONCLUSIVE, f"in {draws:,} samples it {missing}"
    elif decision.detectable_tv > effort.SAMPLER_TV:
        pace = draws / max(sum(sample.seconds for sample in samples.values()), 1e-9)
        enough = f"{effort.SAMPLER_TV} is needed; {pace:.0f} samples a second, raise --budget"
        status, detail = Status.INCONCLUSIVE, f"{draws:,} samples detect {tv}, {enough}"
    scope = scope_of(f"{draws:,} samples", [sample.instance for sample in samples.values()])
    # Lower confidence bounds of the total variation; 0 where none shows.
    bounds = (total_variation_interval(s.counts, s.law, alpha=1e-6).lower for s in samples.values())
    bound = max(bounds, default=0.0)
    findings = Findings(
        samples,
        total_variation=bound,
        smallest_detectable_tv=decision.detectable_tv if decision.passed else None,
        instances={name: sample.instance for name, sample in samples.items()},
        worst=decision.worst,
    )
    result = check_result(
        status,
        detail,
        how=How.SAMPLED,
        alpha=rate,
        draws=draws,
        total_variation=bound,
        scope=(scope, *filter(None, [decision.statistics])),
    )
    return with_findings(result, findings)
