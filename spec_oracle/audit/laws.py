"""Exact laws against the target's, and their accepted lengths against those of the declared rule."""

from collections.abc import Callable, Mapping

import verifiers
from spec_oracle.audit.facts import ROUNDING, Facts
from spec_oracle.audit.panel import scope_of
from spec_oracle.audit.results import CheckResult, Findings, How, Status, failed, never_happened, passed
from spec_oracle.contracts import ContractError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.toy import Instance


def judge_laws(
    law_of: Callable[..., EmissionLaw], instances: Mapping[str, Instance], facts: Facts, how: str
) -> CheckResult:
    """Find the exact law on every instance, and say whether all of them are the target's.

    ``how`` completes "every outcome was ...".
    """
    laws: dict[str, EmissionLaw] = {}
    failure = ""
    for name, instance in instances.items():
        try:
            laws[name] = law_of(instance)
        except (DecisionError, VerdictError, ContractError) as error:
            failure = f"instance {name!r}: {error}"
            break
    worst = max(laws, key=lambda name: float(laws[name].total_variation), default=None)
    gap = float(laws[worst].total_variation) if worst else 0.0
    findings = Findings(
        laws,
        total_variation=gap,
        smallest_detectable_tv=facts.tolerance,
        instances=instances,
        worst=worst if gap > facts.tolerance else None,
        length=declared_length(laws, facts, facts.tolerance),
        law_of=law_of,
    )
    status, detail = Status.PASSED, ""
    missing = never_happened(law.accepted_length_pmf for law in laws.values()) if laws else ""
    if failure or worst is None:
        status, detail = Status.FAILED, failure
    elif gap > facts.tolerance:
        status, detail = Status.FAILED, f"total variation {gap:.3g} on instance {worst!r}"
    elif missing:
        status, detail = Status.INCONCLUSIVE, f"on these instances it {missing}"
    else:
        size = f"at most {gap:.1e}" if facts.tolerance else "exactly 0"
        rounding = " (float32 rounding)" if gap > ROUNDING else ""
        detail = f"total variation {size}{rounding} on {len(laws)} toy instances, every outcome {how}"
    scope = (scope_of("exact output distribution", instances.values()),)
    return CheckResult("", status, detail, how=How.PROVEN, scope=scope, findings=findings)


def declared_length(laws: Mapping[str, EmissionLaw], facts: Facts, tolerance: float) -> CheckResult | None:
    """Judge whether the accepted length has the law of the declared rule; None where none is declared."""
    if facts.rule_at is None or facts.declared_lossy or not laws:
        return None
    gaps = {}
    for name, law in laws.items():
        rule = facts.rule_at(law.instance.draft_length)
        declared = emission_law(verifiers.get(rule), law.instance).accepted_length_pmf
        pairs = zip(law.accepted_length_pmf, declared, strict=True)
        gaps[name, rule] = float(sum(abs(mine - theirs) for mine, theirs in pairs) / 2)
    (name, rule), gap = max(gaps.items(), key=lambda item: item[1])
    if gap > tolerance:
        detail = f"accepted length is not that of {rule!r}: total variation {gap:.3g} on instance {name!r}"
        return failed(detail, how=How.PROVEN)
    return passed(f"accepted length distributed as that of {rule!r}, as declared", how=How.PROVEN)
