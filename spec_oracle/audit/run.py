"""Runs the checks of subjects, in two loops: over the subjects, and over the checks of a suite.

Where a check does not pass, an ordinary call shows whether code keeps its contract at all. A wrapper that
returns nothing, swaps its results, or decides for one request of a batch has no output distribution, so that
"lossy" would be false: the report names the mistake in one sentence, with the line of the code and the form
that the contract demands, and nothing else. The call is made only after a check that did not pass: code must
not have been called before it is traced. Rules are not traced; a call of theirs is repeated before the first
check (`spec_oracle.audit.own_randomness`).
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from spec_oracle.audit.checks import CHECKS, Check, Suite, run_check
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts, OnRecord
from spec_oracle.audit.options import AuditOptions, require_sizes
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.audit.results import Cause, CheckResult, How, LawResult, Status, breach
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.unexecuted_lines import with_lines, with_notes
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.subjects import of_object, resolve_subject
from spec_oracle.audit.suite import SUITES
from spec_oracle.audit.verdict import report_on
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.contracts.engine import NoLawError
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import split
from spec_oracle.threads import CallEndedError, one_torch_thread, watched

BROKEN: Final = "contract broken"
ENDLESS: Final = "a call did not end"
"""Why the other checks are left out."""

_TENSORS: Final = re.compile(r"[Tt]ensor|'numpy\.\w+' object has no attribute")
"""Errors about numpy arrays in the place of tensors."""

_MISTAKEN: Final = 0.5
"""Share of requests with impossible values from which on the wrapper is wrong, rather than its decisions."""


def audit(*subjects: object, options: AuditOptions | None = None, suite: Suite | None = None) -> AuditReport:
    """Audit subjects given by name, as verifiers, samplers or engines, or as `Subject`, in this process.

    Returns one report for all; raises `InvalidInputError` for a subject that does not exist. ``suite`` has
    the checks, those of a subject's kind unless it is given. The run's alpha is shared by all subjects, so
    that the chance of any false alarm is at most alpha. Code under test runs in this process:
    `spec_oracle.audit.isolation` gives each subject one of its own.
    """
    chosen, started = options or AuditOptions(), time.perf_counter()
    listed = [as_subject(subject, chosen) for subject in subjects]
    alpha = split(chosen.alpha, max(len(listed), 1))
    reports = [audit_subject(subject, chosen, alpha, suite=suite) for subject in listed]
    return AuditReport(with_notes(reports), chosen.seed, chosen.alpha, seconds=time.perf_counter() - started)


def as_subject(subject: object, options: AuditOptions) -> Subject:
    """Return the subject of a name or an object, or a `Subject`, with its record as configured.

    Raises `InvalidInputError` for a name that leads nowhere, and for a third party's record without a size.

    What the user leaves out is on record like the failures that the user expects: it is out of date where
    the check would not apply.
    """
    found: Any
    if isinstance(subject, Subject):
        found = subject
    elif isinstance(subject, str):
        found = resolve_subject(subject, array=options.array, num_paths=options.num_paths)
    else:
        attribute = getattr(subject, "__qualname__", type(subject).__name__)
        name = f"{getattr(subject, '__module__', '')}:{attribute}"
        found = of_object(name, subject, array=options.array, num_paths=options.num_paths)
    facts: Facts = found.facts
    if on_record := {
        *facts.failures.reasons,
        *(["joint"] if facts.declared_lossy and not facts.bound else []),
    }:
        require_sizes(on_record, facts.failures.at_most)
    reasons = {**facts.failures.reasons, **options.skip, **options.expected}
    at_most = {**facts.failures.at_most, **options.at_most}
    declared = replace(facts, failures=OnRecord(reasons, at_most, frozenset(options.expected)))
    ours: Subject = replace(found, facts=declared)
    return ours


def audit_subject(
    subject: Subject,
    options: AuditOptions,
    alpha: float,
    note: Callable[[CheckResult], None] = lambda _: None,
    suite: Suite | None = None,
) -> SubjectReport:
    """Run the checks of a suite, or of the subject's kind, at a false-alarm rate of ``alpha`` for all.

    Calls ``note(result)`` after each check.
    """
    results: dict[str, CheckResult] = {}
    context = replace(options.context(alpha), results=MappingProxyType(results))
    checks = SUITES[subject.kind] if suite is None else suite
    # Checks that the user names are in the report even where the suite lacks them.
    asked = {*(options.checks or ()), *subject.facts.failures.reasons}
    first = FirstCall(subject, context, checks)
    with one_torch_thread(), watched():
        for name, check in CHECKS.items():
            if check not in checks and name not in asked:
                continue
            results[name] = first.result(check, options.reason_to_skip(name))
            note(results[name])
        report = report_on(subject, options, alpha, tuple(results.values()))
        if isinstance(subject, SamplerSubject) and not (options.again or first.leaves_out):
            return with_lines(report, subject, context)
        return report


@dataclass
class FirstCall:
    """Runs the checks of a subject, and judges it by one ordinary call where a check did not pass.

    ``fault`` is its mistake, "" where none is known. ``leaves_out`` is the reason why the other checks are
    left out, "" where they are run.
    """

    subject: Subject
    context: Context
    suite: Suite
    fault: str = field(default="", init=False)
    leaves_out: str = field(default="", init=False)
    _was_made: bool = field(default=False, init=False)
    _was_repeated: bool = field(default=False, init=False)

    def result(self, check: Check, left_out: str = "") -> CheckResult:
        """Run a check, unless it is ``left_out`` for a reason; return its result, or the broken contract."""
        name, left_out = check.name, self.leaves_out or left_out
        is_first = not left_out and check in self.suite and not self._was_repeated
        if is_first and isinstance(self.subject, RuleSubject):
            self._was_repeated, self.fault = True, own_randomness(self.subject, self.context)
            if self.fault:
                self.leaves_out = BROKEN
                return replace(breach(ContractError(self.fault)), name=name)
        try:
            found = run_check(check, self.suite, self.subject, self.context, left_out)
        except Exception:
            # An error of our own code may come from a result of the subject.
            if not self._is_at_fault():
                raise
            return replace(breach(ContractError(self.fault)), name=name)
        # Every outcome was run and added up: the code does run.
        is_traced = found.how in (How.PROVEN, How.REPRESENTED)
        is_law_found = is_traced and isinstance(found, LawResult) and bool(found.findings.total_variation)
        if found.status in (Status.FAILED, Status.INCONCLUSIVE) and not is_law_found and self._is_at_fault():
            return replace(breach(ContractError(self.fault)), name=name, seconds=found.seconds)
        if (
            found.cause is Cause.BROKEN_CONTRACT
            and "(at " not in found.detail
            and (place := self.subject.place)
        ):
            return replace(found, detail=f"{found.detail} (at {place})")
        return found

    def _is_at_fault(self) -> bool:
        if not self._was_made:
            self._was_made = True
            try:
                self.fault = fault_of(self.subject, self.context.seed)
            except CallEndedError:
                self.leaves_out = ENDLESS
            self.leaves_out = BROKEN if self.fault else self.leaves_out
            return bool(self.fault)
        return False


def fault_of(subject: Subject, seed: int) -> str:
    """Return the mistake of a subject in an ordinary call, in one sentence; "" where it makes none.

    Raises `CallEndedError` where the call does not end.
    """
    try:
        subject.plain_call(seed)
    except CallEndedError:
        raise
    except ImpossibleOutputError as error:
        return _with_place(error, subject) if error.share >= _MISTAKEN else ""
    except ContractError as error:
        return _with_place(error, subject)
    except SubjectRaisedError as error:
        # Code that ends itself, hangs, or is out of memory, may have no mistake in its wrapper.
        cause = error.__cause__
        is_mistake = isinstance(cause, Exception) and not isinstance(cause, MemoryError)
        is_called = f"; {subject.call_form}" * bool(subject.call_form)
        said = f"{_with_place(error, subject)}{is_called}{_hint(cause, subject)}"
        return said if is_mistake or isinstance(error, NoLawError) else ""
    except InvalidInputError:  # a verifier that carries a state has no plain call
        return ""
    return ""


def _hint(cause: BaseException | None, subject: Subject) -> str:
    """Return a hint for code that takes arrays of another library, "" for other code."""
    is_about_type = isinstance(cause, TypeError | AttributeError) and bool(_TENSORS.search(str(cause)))
    is_numpy = getattr(getattr(subject, "code", None), "array", "") == "numpy"
    return (
        "; it is given numpy arrays: `--array torch` gives it tensors" if is_about_type and is_numpy else ""
    )


def _with_place(error: Exception, subject: Subject) -> str:
    """Return the sentence of an error, with the place of the code."""
    place = "" if "(at " in str(error) else subject.place
    return f"{error}{f' (at {place})' * bool(place)}"
