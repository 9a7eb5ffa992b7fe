"""Evidence `replayed`: code whose uniforms are known, and which way of using that is affordable.

Code that takes its uniforms is integrated over them (`integrated`) if it is fast enough; if not, it is
compared with the rule that it declares, row by row under the same uniforms (`paired_rows`, `breakpoints`), as
is code whose noise is a hash of keys that it takes (`keyed_rows`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from spec_oracle.audit import exact_checks
from spec_oracle.audit.breakpoints import difference_at_breakpoints
from spec_oracle.audit.coins import BY_COINS
from spec_oracle.audit.integrated import Injected, affordable, integrated_findings
from spec_oracle.audit.keyed_rows import calls_by_keys, pair_by_keys
from spec_oracle.audit.paired_rows import PairedFindings, fitting_rule, pair_by_coins, paired_findings
from spec_oracle.audit.plain import ContractError, SubjectRaisedError
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.engines import KeyedEngine
from spec_oracle.exact import EmissionLaw
from spec_oracle.statistics import ErrorBudget
from spec_oracle.toy import Instance

_BREAKPOINTS = 40


@dataclass(frozen=True)
class Replayed:
    """The checks, and what a report says besides; ``worst`` is the instance of a defect in ``laws``."""

    checks: tuple[CheckResult, ...]
    smallest_detectable_tv: float
    block_efficiency: float | None
    total_variation: float | None = None
    laws: Mapping[str, EmissionLaw] = field(default_factory=dict)
    worst: str | None = None


def audited(
    subject: Subject,
    instances: Mapping[str, Instance],
    *,
    wanted: Collection[str],
    alpha: ErrorBudget,
    budget: float,
    seed: int,
) -> Replayed | None:
    """Run the checks `joint`, `length` and, where keys are known, `calls`; ``budget`` in seconds each.

    None when the code is too slow to integrate and agrees with no rule row by row: only sampling is left.
    """
    if subject.keyed is not None:
        return _keyed(subject.keyed, instances, wanted=wanted, alpha=alpha, budget=budget, seed=seed)
    assert subject.with_uniforms is not None
    code = Injected(subject.with_uniforms, subject.array)
    try:
        if not affordable(code, instances, budget=budget, seed=seed):
            return _integrated(code, subject, instances, alpha=alpha, seed=seed)
        return _paired(code, subject, instances, alpha=alpha, budget=budget, seed=seed)
    except ContractError as error:
        status, reason = Status.FAILED, str(error)
    except SubjectRaisedError as error:
        status, reason = Status.INCONCLUSIVE, str(error)
    return Replayed((CheckResult("joint", status, reason),), 1.0, None)


def _integrated(
    code: Injected, subject: Subject, instances: Mapping[str, Instance], *, alpha: ErrorBudget, seed: int
) -> Replayed:
    findings = integrated_findings(
        code, instances, alpha=alpha.rate_of("joint"), tolerance=subject.tolerance, seed=seed
    )
    laws = {name: found.law for name, found in findings.laws.items()}
    checks = [findings.check]
    if subject.rule_at is not None and laws and not subject.declared_lossy:
        tolerance = findings.error_bound + subject.tolerance
        checks.append(exact_checks.length(exact_checks.JointFindings(laws), subject.rule_at, tolerance))
    failed = findings.check.status is Status.FAILED and laws
    efficiencies = [float(law.block_efficiency) for law in laws.values()]
    return Replayed(
        tuple(checks),
        findings.error_bound,
        sum(efficiencies) / len(efficiencies) if efficiencies else None,
        findings.total_variation,
        laws,
        max(laws, key=lambda name: float(laws[name].total_variation)) if failed else None,
    )


def _paired(
    code: Injected,
    subject: Subject,
    instances: Mapping[str, Instance],
    *,
    alpha: ErrorBudget,
    budget: float,
    seed: int,
) -> Replayed | None:
    first = next(iter(instances.values()))
    declared = None if subject.rule_at is None else subject.rule_at(first.draft_length)
    rule = declared if declared in BY_COINS else fitting_rule(code, first, seed)
    if rule is None:
        return None
    findings = paired_findings(
        pair_by_coins(code, rule), instances, alpha=alpha.rate_of("joint"), budget=budget, seed=seed
    )
    joint = findings.check
    if joint.status is Status.PASSED:
        differences = (
            difference_at_breakpoints(code, rule, findings.samples[name].instance, _BREAKPOINTS, seed)
            for name in findings.main
        )
        difference = next(filter(None, differences), "")
        joint = (
            replace(joint, status=Status.INCONCLUSIVE, detail=f"{joint.detail}; {difference}")
            if difference
            else replace(joint, detail=f"{joint.detail}; thresholds agree to 1e-5")
        )
    return _of_rows(findings, (joint, findings.length))


def _keyed(
    engine: KeyedEngine,
    instances: Mapping[str, Instance],
    *,
    wanted: Collection[str],
    alpha: ErrorBudget,
    budget: float,
    seed: int,
) -> Replayed:
    findings = paired_findings(
        pair_by_keys(engine), instances, alpha=alpha.rate_of("joint"), budget=budget, seed=seed
    )
    checks = [findings.check, findings.length]
    if "calls" in wanted:
        checks.append(calls_by_keys(engine, alpha=alpha.rate_of("calls"), budget=budget, seed=seed))
    return _of_rows(findings, tuple(checks))


def _of_rows(findings: PairedFindings, checks: tuple[CheckResult, ...]) -> Replayed:
    # Rows are too few for a mean number of tokens; `length` compares theirs with the rule's.
    return Replayed(checks, findings.smallest_detectable_tv, None)
