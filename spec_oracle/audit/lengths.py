"""The accepted length of laws that are known, against the rule that a subject declares."""

from collections.abc import Mapping

import verifiers
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.exact import EmissionLaw, emission_law


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
        return CheckResult("length", Status.FAILED, detail)
    return CheckResult("length", Status.PASSED, f"accepted length as declared, by the law of {rule!r}")
