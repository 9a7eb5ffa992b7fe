"""Verifiers that take their decisions from a source, and all else that has an exact law."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.findings import Findings, scope_of, vacuity
from spec_oracle.audit.evidence.lengths import declared_length
from spec_oracle.audit.facts import ROUNDING, Facts
from spec_oracle.audit.results import CheckResult, Evidence, Status
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.plain import ContractError, raising
from spec_oracle.toy import Instance
from verifiers import AnyVerifier


def enumerated(verifier: AnyVerifier, facts: Facts, bench: Bench, num_paths: int) -> Findings:
    """Enumerate every decision of a verifier; in rationals where the bench is exact."""

    def law_of(instance: Instance, *, exact: bool = bench.exact) -> EmissionLaw:
        with raising():
            array = "numpy" if exact else bench.array
            return emission_law(verifier, instance, exact=exact, array=array, merged=False)

    exactly = replace(facts, tolerance=0.0) if bench.exact else facts
    return judged(law_of, bench.toys(num_paths), exactly, "enumerated")


def judged(
    law_of: Callable[..., EmissionLaw], instances: Mapping[str, Instance], facts: Facts, how: str
) -> Findings:
    """Find the exact law on every instance, and say whether all of them are the target's."""
    laws: dict[str, EmissionLaw] = {}
    failure = ""
    for name, instance in instances.items():
        try:
            laws[name] = law_of(instance)
        except (DecisionError, VerdictError, ContractError) as error:
            failure = f"{name}: {error}"
            break
    worst = max(laws, key=lambda name: float(laws[name].total_variation), default=None)
    gap = float(laws[worst].total_variation) if worst else 0.0
    return Findings(
        _joint(laws, worst, failure, facts.tolerance, how),
        Evidence.EXACT,
        laws,
        total_variation=gap,
        smallest_detectable_tv=facts.tolerance,
        instances=instances,
        worst=worst if gap > facts.tolerance else None,
        length=declared_length(laws, facts, facts.tolerance),
        law_of=law_of,
        scope=(scope_of(how, instances.values()),),
    )


def _joint(
    laws: Mapping[str, EmissionLaw], worst: str | None, failure: str, tolerance: float, how: str
) -> CheckResult:
    if failure or worst is None:
        return CheckResult("joint", Status.FAILED, failure)
    gap = float(laws[worst].total_variation)
    if gap > tolerance:
        return CheckResult("joint", Status.FAILED, f"total variation {gap:.3g} on instance {worst!r}")
    missing = vacuity(law.accepted_length_pmf for law in laws.values())
    if missing:
        return CheckResult("joint", Status.INCONCLUSIVE, missing)
    size = "exactly 0" if not tolerance else f"at most {gap:.1e}"
    rounding = ", float32 rounding" if gap > ROUNDING else ""
    return CheckResult(
        "joint", Status.PASSED, f"total variation {size}{rounding} on {len(laws)} instances, all {how}"
    )
