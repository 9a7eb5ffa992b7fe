"""Does code keep its contract in an ordinary call? If not, the report names the mistake, and nothing else.

A wrapper that returns nothing, swaps its results, or decides for one request of a batch has no output
distribution, so that "lossy" would be false. The report names the mistake in one sentence, with the line of
the code and the form that the contract demands. The call is made only after a check that did not pass: code
must not have been called before it is traced. Rules are not traced; a call of theirs is repeated before the
first check (`spec_oracle.audit.own_randomness`).
"""

import inspect
import re
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
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
from spec_oracle.places import UNDER_TEST, short_path
from spec_oracle.threads import CallEndedError

BROKEN: Final = "contract broken"
ENDLESS: Final = "a call did not end"
"""Why the other checks are left out."""

_GIVEN: Final = {"numpy": "numpy arrays", "torch": "tensors"}
"""What code is given that works in a library."""

_TENSORS: Final = re.compile(r"[Tt]ensor|'numpy\.\w+' object has no attribute")
"""Errors about numpy arrays in the place of tensors."""

_MISTAKEN: Final = 0.5
"""Share of requests with impossible values from which on the wrapper is wrong, rather than its decisions."""


@dataclass(frozen=True)
class Fault:
    """A mistake in one sentence, and the option of the command that mends it, "" where none does."""

    says: str
    option: str = ""


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
            return self._broken(check, Fault(self._own_randomness))
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
    def _fault(self) -> Fault | None:
        """The mistake of the subject in an ordinary call, None where it makes none or does not end."""
        try:
            return fault_of(self.subject, self.context.seed)
        except CallEndedError:
            self.leaves_out = ENDLESS
            return None

    def _broken(self, check: Check, fault: Fault) -> CheckResult:
        self.leaves_out = BROKEN
        remarks = Remarks(do=_to_fill_in(self.subject) or fault.option or _to_correct(self.subject))
        return replace(breach(ContractError(fault.says)), name=check.name, remarks=remarks)


def fault_of(subject: Subject, seed: int) -> Fault | None:
    """Return the mistake of a subject in an ordinary call, None where it makes none.

    Raises `CallEndedError` where the call does not end.
    """
    try:
        subject.plain_call(seed)
    except CallEndedError:
        raise
    except ImpossibleOutputError as error:
        return Fault(_with_place(str(error), subject)) if error.share >= _MISTAKEN else None
    except ContractError as error:
        return Fault(_with_place(str(error), subject))
    except SubjectRaisedError as error:
        # Code that ends itself, hangs, or is out of memory, may have no mistake in its wrapper.
        cause = error.__cause__
        is_mistake = isinstance(cause, Exception) and not isinstance(cause, MemoryError)
        if not (is_mistake or isinstance(error, NoLawError)):
            return None
        is_called = f"; {subject.call_form}" * bool(subject.call_form)
        option, hint = _other_library(cause, subject, seed)
        return Fault(f"{_with_place(str(error), subject)}{is_called}{hint}", option)
    except InvalidInputError:  # a verifier that carries a state has no plain call
        return None
    return None


def _other_library(cause: BaseException | None, subject: Subject, seed: int) -> tuple[str, str]:
    """Return the option and a hint for code that takes the arrays of the other library, "" for other code.

    It says so, or a call with these ends well.
    """
    if not isinstance(subject, SamplerSubject):
        return "", ""
    array = subject.code.array
    other = "torch" if array == "numpy" else "numpy"
    option = f"--array {other}"
    found = option, f"; it is given {_GIVEN[array]}: `{option}` gives it {_GIVEN[other]}"
    if array == "numpy" and isinstance(cause, TypeError | AttributeError) and _TENSORS.search(str(cause)):
        return found
    if "torch" not in sys.modules:
        return "", ""
    try:
        replace(subject, code=replace(subject.code, array=other, device="cpu")).plain_call(seed)
    except SpecOracleError:
        return "", ""
    return found


def _to_fill_in(subject: Subject) -> str:
    """Return what is left to do in an adapter that `init` wrote, "" for other code."""
    adapter, text = _adapter_of(subject)
    return f"fill in the TODOs of {adapter}" if "# TODO" in text else ""


def _to_correct(subject: Subject) -> str:
    """Return what to do about a guess of `init` that is wrong, "" for other code."""
    adapter, text = _adapter_of(subject)
    is_guessed = "written by `spec-oracle init`" in text
    return f"correct what {adapter} takes the arguments and the result for" if is_guessed else ""


def _adapter_of(subject: Subject) -> tuple[str, str]:
    """Return the file of an adapter, and its text; "" for other code."""
    module = sys.modules.get(subject.name.partition(":")[0])
    if module is None or not hasattr(module, UNDER_TEST):
        return "", ""
    return str(short_path(Path(inspect.getfile(module)))), inspect.getsource(module)


def _with_place(says: str, subject: Subject) -> str:
    """Return a sentence with the place of the code."""
    place = "" if "(at " in says else subject.place
    return f"{says}{f' (at {place})' * bool(place)}"
