"""Does code keep its contract in an ordinary call? If not, the report names the mistake, and nothing else.

A wrapper that returns nothing, swaps its results, or decides for one request of a batch has no output
distribution, so that "lossy" would be false. The report names the mistake in one sentence, with the line of
the code and the form that the contract demands. The call is made only after a check that did not pass: code
must not have been called before it is traced. Rules are not traced; a call of theirs is repeated before the
first check (`spec_oracle.audit.own_randomness`).
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final

from spec_oracle.audit.checks import Check, Suite, run_check
from spec_oracle.audit.context import Context
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.results import Cause, CheckResult, How, LawResult, Status, breach
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.subject import Subject
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.contracts.engine import NoLawError
from spec_oracle.errors import InvalidInputError
from spec_oracle.threads import CallEndedError

BROKEN: Final = "contract broken"
ENDLESS: Final = "a call did not end"
"""Why the other checks are left out."""

_TENSORS: Final = re.compile(r"[Tt]ensor|'numpy\.\w+' object has no attribute")
"""Errors about numpy arrays in the place of tensors."""

_MISTAKEN: Final = 0.5
"""Share of requests with impossible values from which on the wrapper is wrong, rather than its decisions."""


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
        is_first = not left_out and name in self.suite and not self._was_repeated
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
