"""The checks: name, question, share of the error rate; and how the function of a check is run.

A suite is the list of checks of a kind of subject, with the function that runs each: that of servers is in
`spec_oracle.servers.checks.suite`, the others are in `spec_oracle.audit.suite`. `joint`, whose result others
read, runs first, what takes long at last. The rate of a check is its share of the run's, used or
not; within a check each way that may decide has a stated part of it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.failing_inputs import asked_again, breached
from spec_oracle.audit.results import (
    DECLARED,
    Cause,
    CheckResult,
    Remarks,
    Status,
    TooSlowError,
    inconclusive,
)
from spec_oracle.audit.subject import Subject
from spec_oracle.contracts import ContractError, SubjectRaisedError


@dataclass(frozen=True)
class Check:
    """One question; ``share`` is its part of the run's error rate.

    ``against_law``: whether its failure proves that the output is not distributed as the target.
    """

    name: str
    question: str
    share: Fraction
    against_law: bool = False

    def record_in(self, facts: Facts) -> str:
        """Return the check whose record covers this one: its own, else for a wrong distribution `joint`.

        What is wrong with the distribution of one call shows in all checks of the distribution.
        """
        return self.name if self.name in facts.failures.at_most or not self.against_law else "joint"


Run: TypeAlias = Callable[[Any, Context], CheckResult]


@dataclass(frozen=True)
class Unless:
    """The function that runs a check, and ``reasons`` to skip it, each with what says whether it holds."""

    run: Run
    reasons: tuple[tuple[str, Callable[[Context, Subject], bool]], ...]


Suite: TypeAlias = Mapping[str, Run | Unless]
"""The function that runs each check of a kind of subject, by the name of the check."""


_TABLE: Final = (
    ("plain-law", 5, "are the next-token distributions it reports those it samples from?"),
    ("joint", 20, "is the output distribution of one call the target's?"),
    ("model", 0, "is the served model that of the reference?"),
    ("shapes", 10, "is it so at other V, L, K, B, number types, layouts, rows, or sampling fields?"),
    ("length", 10, "is the accepted length that of its rule, declared or identified?"),
    ("calls", 10, "is the text of several calls distributed as the target's?"),
    ("long-texts", 5, "is every token of a long completion sampled from its next-token distribution?"),
    ("logprobs", 0, "are reported log-probabilities those of the distribution that is sampled?"),
    ("draft-law", 10, "does the drafter sample from the q that it reports?"),
    ("streams", 10, "same seed same result, other seeds independent?"),
    ("batch", 10, "does a request ignore the others of its batch, and share no randomness with them?"),
    ("bad-input", 1, "NaN, infinite, negative, unnormalised or zero rows, wrong ids, extreme uniforms?"),
    ("inputs-kept", 1, "are inputs unchanged after the call?"),
    ("scale", 8, "are ids, offsets and the distribution kept at large V and in low precision?"),
)
"""Name, share of the error rate in percent, question."""

_AGAINST_LAW: Final = {"joint", "model", "shapes", "calls", "long-texts", "batch", "scale"}

CHECKS: Final = MappingProxyType(
    {
        name: Check(name, question, Fraction(percent, 100), name in _AGAINST_LAW)
        for name, percent, question in _TABLE
    }
)
"""All checks by name, in the order in which reports show them."""

IN_TURN: Final = sorted(CHECKS.values(), key=lambda check: check.name in {"shapes", "scale"})
"""All checks in the order in which they run: those that take long are the last ones."""


OF_RATIONALS: Final = "; --exact gives it arrays of rationals, which some functions of numpy do not take"


def run_check(
    check: Check, suite: Suite, subject: Subject, context: Context, left_out: str = ""
) -> CheckResult:
    """Return the result of a check and how long it took, unless it is ``left_out`` for a reason.

    A broken contract, an exception, or a short budget is a result; so is that a suite lacks the check.
    """
    if check.name not in suite:
        return CheckResult(check.name, Status.NOT_APPLICABLE, f"not a check of this kind: {subject.kind}")
    if left_out:
        return CheckResult(check.name, Status.SKIPPED, left_out)
    is_again = context.again is not None and context.again.check == check.name
    run, rate = asked_again if is_again else suite[check.name], context.rate * float(check.share)
    record, started = check.record_in(subject.facts), time.perf_counter()
    if isinstance(run, Unless):
        for reason, holds in run.reasons:
            if holds(context, subject):
                return CheckResult(check.name, Status.SKIPPED, reason)
        run = run.run
    admitted = subject.facts.size_of(record) if check.against_law else None
    try:
        result = run(subject, replace(context, rate=rate, admitted=admitted))
    except ContractError as error:
        result = breached(error, subject, context, rate, alpha=rate)
    except SubjectRaisedError as error:
        is_type = context.exact and isinstance(error.__cause__, TypeError | AttributeError)
        result = inconclusive(f"{error}{OF_RATIONALS * is_type}", alpha=rate)
        result = replace(result, remarks=Remarks(do="leave out --exact" * is_type))
    except TooSlowError as error:
        result = CheckResult("", Status.NOT_RUN, str(error), remarks=Remarks(do=error.do))
    # Without its output, a check that does not compare distributions says nothing of the distribution.
    is_of_law = check.against_law or result.cause is not Cause.BROKEN_CONTRACT
    seconds = time.perf_counter() - started
    return replace(result, name=check.name, cause=result.cause if is_of_law else None, seconds=seconds)


def skip_if_wrong(run: Run) -> Unless:
    """Skip a check if `joint` failed, and by more than is on record."""
    return Unless(run, (("joint failed", Context.is_wrong),))


def skip_if_declared(run: Run) -> Unless:
    """Skip a check if the subject declares itself lossy, or if `joint` failed by more than is on record."""
    return Unless(run, (*skip_if_wrong(run).reasons, (DECLARED, Context.is_declared)))


def skip_if_lossy(run: Run) -> Unless:
    """Skip a check if `joint` failed at all, or if the subject declares itself lossy."""
    return Unless(run, (*skip_if_declared(run).reasons, ("joint failed", Context.is_lossy)))
