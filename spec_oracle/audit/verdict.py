"""What the checks of a subject come to."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import CheckResult, Status, SubjectVerdict


def against_law(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the failures that prove text to be other than the target's."""
    failures = (check for check in checks if check.status is Status.FAILED)
    return [check for check in failures if CHECKS[check.name].speaks_against_law]


def verdict_of(checks: Sequence[CheckResult], facts: Facts) -> SubjectVerdict:
    """Return the verdict: never lossless where a check found the law wrong, whatever its name."""
    if wrong := against_law(checks):
        is_declared = facts.declared_lossy or facts.expected.issuperset(check.name for check in wrong)
        return SubjectVerdict.DECLARED_LOSSY if is_declared else SubjectVerdict.LOSSY
    # Another check that could not be settled is told, but what was found of one call stands without it.
    is_law_kept = any(check.name == "joint" and check.status is Status.PASSED for check in checks)
    return SubjectVerdict.LOSSLESS if is_law_kept else SubjectVerdict.INCONCLUSIVE


def with_record(check: CheckResult, facts: Facts) -> CheckResult:
    """Mark a result that is on record: a known or declared failure, or one of what is said to fail."""
    record = facts.known.get(check.name, "")
    if check.status is Status.FAILED and CHECKS[check.name].speaks_against_law:
        record = record or facts.declared_lossy
    settled = (Status.PASSED, Status.FAILED, Status.NOT_APPLICABLE)
    return replace(check, known=record) if check.status in settled else check
