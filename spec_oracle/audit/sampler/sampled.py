"""The law of one call by samples, against exact laws of the target, at stated error rates.

All instances are screened; those that detect most are sampled often enough for the G test to detect any
defect of total variation `effort.SAMPLER_TV`.
"""

from collections.abc import Sequence
from typing import Any

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Requests, Sampler
from spec_oracle.audit.exact_comparison import never_happened, scope_of
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.results import CheckResult, Findings, How, Status
from spec_oracle.audit.sampling import judge_samples
from spec_oracle.statistics import total_variation_interval


def sampled(
    subject: Any,
    context: Context,
    rate: float,
    *,
    drafted: Requests | None = None,
    names: Sequence[str] = (),
) -> CheckResult:
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
    scopes = (scope, *filter(None, [decision.statistics]))
    return CheckResult(
        "", status, detail, rate, draws, bound, how=How.SAMPLED, scope=scopes, findings=findings
    )
