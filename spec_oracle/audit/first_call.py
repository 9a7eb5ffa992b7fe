"""Does code keep its contract in an ordinary call? If not, the report names the mistake, and nothing else.

A wrapper that returns nothing, swaps its results, or decides for one request of a batch has no output
distribution, so that "lossy" would be false. The report names the mistake in one sentence, with the line of
the code and the form that the contract demands. The call is made only after a check that did not pass: code
must not have been called before it is traced. Rules are not traced; a call of theirs is repeated before the
first check (`spec_oracle.audit.own_randomness`).
"""

import re
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from spec_oracle.audit.checks import Check, Suite, run_check
from spec_oracle.audit.context import Context
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.results import Cause, CheckResult, How, LawResult, Remarks, Status, breach
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import Subject
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.contracts.engine import NoLawError
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.threads import CallEndedError

BROKEN: Final = "contract broken"
ENDLESS: Final = "a call did not end"
"""Why the other checks are left out."""

TENSORS: Final = ("torch", "tensors")
ARRAYS: Final = ("numpy", "numpy arrays")
"""Libraries, and what code takes that works in them."""

_OPTION: Final = re.compile(r"`(--array \w+)` gives it")

_TENSORS: Final = re.compile(r"[Tt]ensor|'numpy\.\w+' object has no attribute")
"""Errors about numpy arrays in the place of tensors."""

_MISTAKEN: Final = 0.5
"""Share of requests with impossible values from which on the wrapper is wrong, rather than its decisions."""


@dataclass
class FirstCall:
    """Runs the checks of a subject, and judges it by one ordinary call where a check did not pass.

    ``leaves_out`` is the reason why the other checks are left out, "" where they are run.
    """

    subject: Subject
    context: Context
    suite: Suite
    leaves_out: str = field(default="", init=False)

    def result(self, check: Check, left_out: str = "") -> CheckResult:
        """Run a check, unless it is ``left_out`` for a reason; return its result, or the broken contract."""
        left_out = self.leaves_out or left_out
        is_rule = isinstance(self.subject, RuleSubject) and not left_out and check.name in self.suite
        if is_rule and self._own_randomness:
            return self._broken(check, self._own_randomness)
        try:
            found = run_check(check, self.suite, self.subject, self.context, left_out)
        except Exception:
            # An error of our own code may come from a result of the subject.
            if not self._fault:
                raise
            return self._broken(check, self._fault)
        # Every outcome was run and added up: the code does run.
        is_traced = found.how in (How.PROVEN, How.REPRESENTED)
        is_law_found = is_traced and isinstance(found, LawResult) and bool(found.findings.total_variation)
        if found.status in (Status.FAILED, Status.INCONCLUSIVE) and not is_law_found and self._fault:
            return replace(self._broken(check, self._fault), seconds=found.seconds)
        if found.cause is Cause.BROKEN_CONTRACT:
            return replace(found, detail=_with_place(found.detail, self.subject))
        return found

    @cached_property
    def _own_randomness(self) -> str:
        """What shows that a rule has random numbers besides its decisions."""
        return own_randomness(self.subject, self.context) if isinstance(self.subject, RuleSubject) else ""

    @cached_property
    def _fault(self) -> str:
        """The mistake of the subject in an ordinary call, "" where it makes none or the call does not end."""
        try:
            return fault_of(self.subject, self.context.seed)
        except CallEndedError:
            self.leaves_out = ENDLESS
            return ""

    def _broken(self, check: Check, fault: str) -> CheckResult:
        self.leaves_out = BROKEN
        hint = _OPTION.search(fault)
        do = Remarks(do=hint[1] if hint else "")
        return replace(breach(ContractError(fault)), name=check.name, remarks=do)


def fault_of(subject: Subject, seed: int) -> str:
    """Return the mistake of a subject in an ordinary call, in one sentence; "" where it makes none.

    Raises `CallEndedError` where the call does not end.
    """
    try:
        subject.plain_call(seed)
    except CallEndedError:
        raise
    except ImpossibleOutputError as error:
        return _with_place(str(error), subject) if error.share >= _MISTAKEN else ""
    except ContractError as error:
        return _with_place(str(error), subject)
    except SubjectRaisedError as error:
        # Code that ends itself, hangs, or is out of memory, may have no mistake in its wrapper.
        cause = error.__cause__
        is_mistake = isinstance(cause, Exception) and not isinstance(cause, MemoryError)
        is_called = f"; {subject.call_form}" * bool(subject.call_form)
        said = f"{_with_place(str(error), subject)}{is_called}{_hint(cause, subject, seed)}"
        return said if is_mistake or isinstance(error, NoLawError) else ""
    except InvalidInputError:  # a verifier that carries a state has no plain call
        return ""
    return ""


def _hint(cause: BaseException | None, subject: Subject, seed: int) -> str:
    """Return a hint for code that takes arrays of the other library: it says so, or ends well with them."""
    if not isinstance(subject, SamplerSubject):
        return ""
    is_numpy = subject.code.array == "numpy"
    given, other, wanted = ("numpy arrays", *TENSORS) if is_numpy else ("tensors", *ARRAYS)
    hint = f"; it is given {given}: `--array {other}` gives it {wanted}"
    if is_numpy and isinstance(cause, TypeError | AttributeError) and _TENSORS.search(str(cause)):
        return hint
    if "torch" not in sys.modules:
        return ""
    try:
        replace(subject, code=replace(subject.code, array=other, device="cpu")).plain_call(seed)
    except SpecOracleError:
        return ""
    return hint


def _with_place(says: str, subject: Subject) -> str:
    """Return a sentence with the place of the code."""
    place = "" if "(at " in says else subject.place
    return f"{says}{f' (at {place})' * bool(place)}"
