"""What the checks of a subject come to: its verdict, its figures, and the report on it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import Any, Final

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.counterexample import counterexample, with_file
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.exact_comparison import accepted_length, accepts
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import AuditedCode, Evidence, InstanceFigures, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    Findings,
    How,
    LawResult,
    Remarks,
    Status,
)
from spec_oracle.audit.subject import Subject
from spec_oracle.contracts.speculation import UNKNOWN, Speculation
from spec_oracle.exact.call import drafting_on
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, single_path_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings

_OPEN = (Status.FAILED, Status.INCONCLUSIVE)


def without_findings(result: CheckResult) -> CheckResult:
    """Return the result alone: functions in findings cannot be sent to another process."""
    if not isinstance(result, LawResult):
        return result
    return CheckResult(*(getattr(result, one.name) for one in fields(CheckResult)))


def against_law(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the failures that prove the output to be distributed otherwise than the target."""
    failures = (check for check in checks if check.status is Status.FAILED)
    outputs = (check for check in failures if check.cause is not Cause.BROKEN_CONTRACT)
    return [check for check in outputs if CHECKS[check.name].against_law]


PROVISO = (
    "lossless as its own next_token_probs says: it has no generate_plain, so that nothing else shows what "
    "target-only decoding is"
)


def verdict_of(checks: Sequence[CheckResult], facts: Facts) -> SubjectVerdict:
    """Return the verdict: never lossless where a check found the distribution wrong, whatever its name.

    Nor where one saw a deviation that it could not decide: that is inconclusive.

    What breaks the contract is told apart from a wrong distribution. `broken`, if a first call on ordinary
    input does (see `spec_oracle.audit.first_call`), whatever it returns or raises: the wrapper does not fit.
    Where ordinary calls keep the contract: `broken`, if at some sizes or after some drafts what is returned
    is no output at all (a wrong shape, nothing, no padding), unless another check proves the distribution
    wrong. `lossy`, if it is an output with an impossible value (an id outside the vocabulary, more tokens
    accepted than drafted): an output with probability 0 under the target is sampled, so that the distribution
    is wrong.
    """
    if wrong := against_law(checks):
        is_declared = all(_is_declared(check, facts) for check in wrong)
        return SubjectVerdict.DECLARED_LOSSY if is_declared else SubjectVerdict.LOSSY
    if any(check.cause is Cause.BROKEN_CONTRACT and not check.known for check in checks):
        return SubjectVerdict.BROKEN
    # Another check that is open has its own line, but what was found of one call stands without it.
    is_seen_wrong = any(check.cause is Cause.UNDECIDED for check in checks)
    is_law_kept = bool(checks) and basis_of(checks).status is Status.PASSED and not is_seen_wrong
    if is_law_kept and facts.bound:
        return SubjectVerdict.DECLARED_LOSSY
    return SubjectVerdict.LOSSLESS if is_law_kept else SubjectVerdict.INCONCLUSIVE


def _is_declared(check: CheckResult, facts: Facts) -> bool:
    """Whether the user's configuration, or the code itself, declares that much of a wrong distribution."""
    name = CHECKS[check.name].record_in(facts)
    is_declared = name in facts.failures.by_user or (name == "joint" and bool(facts.declared_lossy))
    return is_declared and facts.admits(name, _size(check, name))


def _size(check: CheckResult, record: str) -> float:
    """Return the total variation of a failure; one that is not known is more than another check's record."""
    unknown = 1.0 if record == check.name else math.inf
    return unknown if check.measured.total_variation is None else check.measured.total_variation


def basis_of(checks: Sequence[CheckResult]) -> CheckResult:
    """Return the check on which the verdict rests: `joint`, or `long-texts` where it is left out."""
    found = {check.name: check for check in checks}
    joint = found.get("joint", checks[0])
    is_elsewhere = joint.status in (Status.SKIPPED, Status.NOT_APPLICABLE)
    return found.get("long-texts", joint) if is_elsewhere else joint


def with_record(check: CheckResult, facts: Facts) -> CheckResult:
    """Mark a result that is on record; one of a larger total variation says so instead, and what to do."""
    if check.status is not Status.FAILED or not CHECKS[check.name].against_law:
        has_ended = check.status in (Status.PASSED, Status.FAILED, Status.NOT_APPLICABLE)
        return replace(check, known=facts.failures.reasons.get(check.name, "") if has_ended else check.known)
    name = CHECKS[check.name].record_in(facts)
    most, size = facts.size_of(name), _size(check, name)
    if most is None:
        return check
    if facts.admits(name, size):
        return replace(check, known=facts.record(name))
    found = "an unknown total variation" if check.measured.total_variation is None else f"{size:.3g}"
    entry = "write" if name == check.name else f"add an expected failure of {check.name} with"
    on_record = f"on record for {name} is {AT_MOST} = {most:g} ({facts.record(name)})"
    admit = f"to admit it, {entry} {AT_MOST} = {rounded_up(size)}"
    detail = f"{check.detail}; {on_record}, and {found} was found; {admit}"
    return replace(check, detail=detail, remarks=replace(check.remarks, do=admit))


AT_MOST: Final = "at-most"
"""The key of a configuration for the size of an expected failure."""


def rounded_up(size: float) -> str:
    """Return a total variation rounded up to two digits.

    >>> rounded_up(0.1837), rounded_up(0.002), rounded_up(1.0)
    ('0.19', '0.0021', '1')
    """
    if size >= 1:
        return "1"
    step = 10.0 ** (math.floor(math.log10(max(size, 1e-12))) - 1)
    return f"{min((math.floor(size / step + 1e-9) + 1) * step, 1.0):.2g}"


def report_on(
    subject: Subject, options: AuditOptions, alpha: float, found_by: Sequence[CheckResult]
) -> SubjectReport:
    """Return the report on a subject: what the checks found, and the verdict that they come to."""
    facts = subject.facts
    found_by = _unless_unseen(found_by, subject.drafts, options)
    checks = tuple(with_record(without_findings(check), facts) for check in found_by)
    joint = basis_of(found_by)
    found = joint.findings if isinstance(joint, LawResult) else Findings()
    against = against_law(checks)
    by_joint = not against or any(check.name == "joint" or check.measured.alpha == 0 for check in against)
    evidence = evidence_of(joint) if by_joint else Evidence.STATISTICAL
    verdict = verdict_of(checks, facts)
    is_proviso = verdict is SubjectVerdict.LOSSLESS and bool(facts.proviso)
    provisos = [facts.proviso] * is_proviso + [check.remarks.proviso for check in checks]
    if subject.is_rerunnable:
        checks = tuple(
            with_file(check, subject.name, options)
            if check.shown.inputs or check.status is Status.FAILED
            else check
            for check in checks
        )
    shown = None
    if found.worst is not None or any(check.shown.completion for check in checks):
        shown = counterexample(subject.name, found, checks, options, subject.num_paths)
    measured = [
        found.total_variation,
        *(check.measured.total_variation for check in against if check.measured.alpha == 0),
    ]
    is_open = verdict is not SubjectVerdict.LOSSLESS or any(check.status in _OPEN for check in checks)
    return SubjectReport(
        subject.name,
        subject.kind,
        verdict,
        evidence,
        checks,
        alpha,
        Remarks(
            tuple(line for check in checks for line in check.remarks.scope),
            (
                *([PROVISO] if is_proviso else []),
                *facts.notes,
                *dict.fromkeys(note for check in checks for note in check.remarks.notes),
            ),
            next((check.remarks.coverage for check in checks if check.remarks.coverage), {}),
            next(filter(None, provisos), ""),
        ),
        total_variation=max((tv for tv in measured if tv is not None), default=None),
        smallest_detectable_tv=found.smallest_detectable_tv,
        figures=figures_of(subject, found),
        counterexample=shown,
        rule=facts.rule_at(options.draft_length) if facts.rule_at else found.rule,
        rule_identified=found.rule is not None,
        code=AuditedCode(facts.version, subject.place if is_open else ""),
        again=options.again.check if options.again else "",
    )


def _unless_unseen(
    checks: Sequence[CheckResult], drafts: Speculation | None, options: AuditOptions
) -> Sequence[CheckResult]:
    """Return the results, the basis of the verdict left open if drafts were never seen, or never judged."""
    if drafts is None or not checks:
        return checks
    is_unknown = not (drafts.is_known or options.assume_speculating)
    never = f"{UNKNOWN}; if you know that it does, --assume-speculating" if is_unknown else drafts.never
    basis = basis_of(checks)
    if not never or basis.status is not Status.PASSED:
        return checks
    do = "--assume-speculating" if is_unknown else drafts.do
    is_open = replace(
        basis,
        status=Status.INCONCLUSIVE,
        detail=f"{never}; {basis.detail}",
        remarks=replace(basis.remarks, do=do),
    )
    return [is_open if check is basis else check for check in checks]


def evidence_of(joint: CheckResult) -> Evidence:
    """Return the kind of evidence behind the distribution of one call."""
    if joint.how in (How.PROVEN, How.REPRESENTED):
        return Evidence.EXACT
    if joint.how is None:
        return Evidence.NONE
    return Evidence.REPLAYED if joint.how is How.REPLAYED else Evidence.STATISTICAL


def figures_of(subject: Subject, found: Findings) -> tuple[InstanceFigures, ...]:
    """Return the figures of every instance whose law was found."""
    best = block_transport_optimum if subject.carries_state else multi_path_optimum
    drafting = getattr(subject, "drafting", Siblings.INDEPENDENT)
    elsewhere = found.elsewhere and found.elsewhere.optimum_of
    optimum_of = elsewhere or partial(_optimum, best=best, drafting=drafting)

    def of_rule(instance: Instance) -> tuple[float, ...]:
        """Return the law of the accepted length of the declared rule, () if it does not accept such paths."""
        # Where the optimum is one of trees, the drafts are no paths.
        if elsewhere or subject.facts.rule_at is None:
            return ()
        rule = subject.facts.rule_at(instance.draft_length)
        is_accepted = accepts(rule, drafting_on(instance, drafting))
        return accepted_length(rule, instance, drafting) if is_accepted else ()

    return tuple(
        InstanceFigures(
            name,
            (instance := found.instances[name]).digest,
            float(law.block_efficiency),
            optimum_of(instance),
            tuple(map(float, law.accepted_length_pmf)),
            of_rule(instance),
        )
        for name, law in found.laws.items()
    )


@lru_cache(maxsize=256)
def _optimum(instance: Instance, best: Callable[..., Any], drafting: Siblings) -> float:
    """Return the most tokens per call on one instance; subjects of one audit share it."""
    if instance.num_paths == 1 and best is multi_path_optimum:  # in closed form
        return float(single_path_optimum(instance).value)
    return float(best(instance, drafting=drafting).value)
