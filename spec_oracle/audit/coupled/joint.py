"""The check `joint` of coupled rules: the output distribution of one call.

The rule is called on sampled uniforms and on the drafts that they lead to, beside list coupling by its
definition (`spec_oracle.audit.coupled.reference`). If they differed on a share s of all noise, n requests
would all agree with probability (1 - s)^n; and the total variation between them is at most s. The
distribution of list coupling is computed exactly (`spec_oracle.exact.coupling`). Of a rule that emits
something else completions are sampled.

The optimum that is reported is that of independent paths: given its drafts, a coupled rule is one of the
verifiers which that bounds.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_that_works
from spec_oracle.audit.coupled.reference import Compared, compared_on, races_all
from spec_oracle.audit.coupled.subject import CoupledSubject, names, requests
from spec_oracle.audit.coupled.toys import all_instances
from spec_oracle.audit.laws import never_happened, scope_of
from spec_oracle.audit.panel import instances_for
from spec_oracle.audit.results import CheckResult, Findings, How, NoEvidenceError, Status, passed
from spec_oracle.audit.sampler.sampled import sampled
from spec_oracle.exact.coupling import coupled_emission_law
from spec_oracle.toy import Instance


def joint(subject: CoupledSubject, context: Context) -> CheckResult:
    """Compare with the built-in rules, the declared one first; else sample, at the rate of the check."""
    every = all_instances(context, subject.num_paths)
    by_samples = partial(
        sampled, subject, replace(context, instances=every), context.rate, drafted=requests, names=[*every]
    )
    return first_that_works([partial(beside_rule, subject, context), by_samples])


def beside_rule(subject: CoupledSubject, context: Context) -> CheckResult:
    """Return the distribution of the built-in rule that emits the same; raises `NoEvidenceError` for none."""
    instances, apart = instances_for(context, subject.num_paths), ""
    for rule in dict.fromkeys((subject.declared or names()[0], *names())):
        by_name: dict[str, Compared] = {}
        for name, instance in instances.items():
            found = _beside(subject, context, rule, name, instance)
            if found.apart:
                apart = apart or f"instance {name!r}: with the same uniforms it emits {found.apart}"
                break
            by_name[name] = found
        else:
            return _result(rule, instances, by_name, exact=context.exact)
    raise NoEvidenceError(f"it is not list coupling, so it was sampled ({apart})")


def _beside(subject: CoupledSubject, context: Context, rule: str, name: str, instance: Instance) -> Compared:
    """Compare on a few requests, and then on many."""
    for batch in (effort.COUPLED_FIRST, effort.COUPLED_REQUESTS):
        rng = context.stream(f"coupled/joint/{name}/{batch}")
        found = compared_on(subject.code, rule, instance, batch, rng)
        if found.apart:
            break
    return found


def _result(
    rule: str, instances: Mapping[str, Instance], by_name: Mapping[str, Compared], *, exact: bool
) -> CheckResult:
    laws = {
        name: coupled_emission_law(instance, all_race=races_all(rule), exact=exact)
        for name, instance in instances.items()
    }
    count, near = (sum(getattr(one, of) for one in by_name.values()) for of in ("requests", "near"))
    share = max(one.share for one in by_name.values())
    gap = max(float(law.total_variation) for law in laws.values())
    same = f"same tokens as {rule} with the same uniforms in {count:,} requests"
    findings = Findings(
        laws,
        total_variation=gap,
        smallest_detectable_tv=share,
        instances=instances,
        length=passed(f"same accepted lengths as {rule} in these requests", how=How.REPLAYED),
        rule=rule,
    )
    size = "exactly 0" if exact else f"at most {gap:.1e}"
    detail = (
        f"{same} (a difference on {100 * share:.2g} % of all noise would show); its total variation is {size}"
    )
    missing = never_happened(law.accepted_length_pmf for law in laws.values())
    scope = (scope_of(f"{same}, whose distribution is exact", instances.values()),)
    notes = (f"{near:,} of these requests differ: two tokens were nearly level",) if near else ()
    return CheckResult(
        "",
        Status.INCONCLUSIVE if missing else Status.PASSED,
        f"on these instances it {missing}" if missing else detail,
        draws=count,
        how=How.REPLAYED,
        scope=scope,
        notes=notes,
        findings=findings,
    )
