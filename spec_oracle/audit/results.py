"""The result of a check, and the findings of `joint` on the distribution: later checks may read both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias, TypeVar

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.contracts import ContractError, Emissions, ImpossibleOutputError
from spec_oracle.contracts.completion import Prompt, Token
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, Gap
from spec_oracle.exact.completions import largest_gap
from spec_oracle.toy import Instance
from verifiers import Paths

Number: TypeAlias = float | Fraction

Pair: TypeAlias = Callable[[Paths, np.random.Generator], tuple[Emissions, Emissions]]
"""Verifies drafts by the code and by a reference rule, under the same randomness."""

Result = TypeVar("Result", bound="CheckResult")


class Status(StrEnum):
    """How one check ended."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not-run"
    """It applies, but could not be run: too slow for the budget, or the code under test ended the process."""
    NOT_APPLICABLE = "not-applicable"
    """There is nothing to ask of this subject."""
    SKIPPED = "skipped"
    """Left out: by the user, or because `joint` failed."""


DECLARED = "it declares itself lossy"
"""Why what compares with the target's distribution is left out of a rule that kept its declared bound."""

UNTRIED = (Status.NOT_RUN, Status.NOT_APPLICABLE, Status.SKIPPED)


class How(StrEnum):
    """How a check knows what it says."""

    PROVEN = "proven"
    """Every outcome of every random decision was run."""
    REPRESENTED = "represented"
    """As proven, but values that the code only stores or compares were run by representatives."""
    REPLAYED = "replayed"
    """The code and a reference were run with the same given random numbers."""
    SAMPLED = "sampled"
    NOT_TRIED = "not tried"
    FAILED = "failed"


class Cover(StrEnum):
    """What is known of the law at the shapes that share a size, a number type, ...; worst first."""

    WRONG = "wrong"
    PROVEN = "proven"
    REPRESENTED = "represented"
    """As proven, but sampled ids that the code reads were run by representatives."""
    SAMPLED = "sampled"
    """Only sampled; found right at the rates of the check."""
    NOT_TRACED = "not-traced"
    UNTRIED = "untried"


@dataclass(frozen=True)
class SampledLaw:
    """What was sampled on one instance: counts of completions of L+1 tokens, and of accepted lengths."""

    instance: Instance
    law: Floats
    counts: Integers
    lengths: Integers

    @property
    def total_variation(self) -> float:
        """Total variation as sampled; noise included."""
        return float(abs(self.counts / self.counts.sum() - self.law).sum() / 2)

    @property
    def largest_gap(self) -> Gap:
        """The completion with the largest gap, as sampled."""
        return largest_gap(self.law, self.counts / self.counts.sum(), self.extended().shape)

    def extended(self) -> Floats:
        """Return the law of the first L+1 tokens as sampled, shape (V,) * (L+1)."""
        shape = (self.instance.vocab_size,) * len(self.lengths)
        return np.asarray(self.counts / self.counts.sum()).reshape(shape)

    @property
    def accepted_length_pmf(self) -> tuple[float, ...]:
        """P(tau = 0), ..., P(tau = L), as sampled."""
        return tuple(self.lengths / max(self.lengths.sum(), 1))

    @property
    def block_efficiency(self) -> float:
        """Mean number of emitted tokens, tokens per call."""
        return float(sum(n * share for n, share in enumerate(self.accepted_length_pmf, start=1)))


Law: TypeAlias = EmissionLaw | SampledLaw
"""What is known of a subject's law on one instance: exact, or as sampled."""


@dataclass(frozen=True)
class WrongCompletion:
    """A completion that an engine generates too often or too rarely; fields as of `Counterexample`."""

    engine: str
    prompt: tuple[int, ...]
    tokens: int
    gap: Gap
    total_variation: float


@dataclass(frozen=True)
class TextCounterexample:
    """A completion that a server sends too often or too rarely, and how to ask for it.

    ``tokens`` after ``prompt`` are the completion, or, with ``is_prefix``, what it begins with; None stands
    for any other token. ``seen`` of ``draws`` completions, with a confidence interval, where ``expected`` is
    right.
    """

    prompt: Prompt
    tokens: tuple[Token | None, ...]
    is_prefix: bool
    expected: float
    seen: float
    lower: float
    upper: float
    draws: int
    reproduce: str


@dataclass(frozen=True)
class Measured:
    """Numbers behind a result.

    ``alpha`` is the false-alarm rate of the check, 0 for one that proves; ``draws`` counts sampled requests;
    ``total_variation`` is the largest that was proven, or its lower confidence bound, None where a check
    measures none. ``tokens`` are those of the longest completion, 0 where the check judges none, and
    ``detectable`` is the total variation that would show in these: of a token, where each is judged.
    """

    alpha: float = 0.0
    draws: int = 0
    total_variation: float | None = None
    tokens: int = 0
    detectable: float | None = None


@dataclass(frozen=True)
class Remarks:
    """Lines for the reader: what a result covers, and what else should be known of the code.

    ``coverage`` is that of the check `shapes`: axis, value, what is known there. ``proviso`` completes the
    verdict. ``do`` says what to do so that the check passes, or its failure is accepted: a sentence, or, from
    ``--`` on, an option of the next command; "--budget" alone asks for more time than there was.
    """

    scope: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    coverage: Mapping[str, Mapping[str, Cover]] = field(default_factory=dict)
    proviso: str = ""
    do: str = ""


NO_REMARKS: Final = Remarks()


@dataclass(frozen=True)
class Shown:
    """What shows a failure: a completion of an engine or a server; inputs on which the check fails again."""

    completion: WrongCompletion | TextCounterexample | None = None
    inputs: FailingInputs | None = field(default=None, compare=False)


class Cause(StrEnum):
    """What a failed or an open check means for the verdict, where its status alone does not say it."""

    BROKEN_CONTRACT = "broken-contract"
    """What failed is no output at all, so that it has no distribution."""
    UNDECIDED = "undecided"
    """It saw a deviation from the target's distribution, and could neither confirm nor refute it: the verdict
    is not lossless then."""


@dataclass(frozen=True)
class CheckResult:
    """The result of a check; ``detail`` is one line for people, the reason where it was not tried.

    ``how`` it knows, None where it knows nothing. ``known`` is the reason or the page of a failure on record,
    empty for others. ``seconds`` is what the check took.
    """

    name: str
    status: Status
    detail: str
    how: How | None = None
    measured: Measured = Measured()
    remarks: Remarks = NO_REMARKS
    shown: Shown = Shown()
    cause: Cause | None = None
    known: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_settled(self) -> bool:
        """Whether it leaves nothing open: passed, not to be asked, left out by the user, or failed as known.

        A check on record that passes, or does not apply, is not settled: the record is out of date.
        """
        if self.status is Status.FAILED:
            return bool(self.known)
        if self.status in (Status.PASSED, Status.NOT_APPLICABLE):
            return not self.known
        return self.status is Status.SKIPPED

    @property
    def word(self) -> How:
        """How it knows, in one of six words."""
        if self.status is Status.FAILED:
            return How.FAILED
        return How.NOT_TRIED if self.how is None or self.status in UNTRIED else self.how


@dataclass(frozen=True)
class Elsewhere:
    """How to find the exact law on other instances than those of `joint`.

    ``law_of(instance, exact=...)`` is the law there; ``is_wrong`` says which laws are, where that is not
    decided by their total variation; ``optimum_of`` the most tokens per call there, where that is not the
    optimum over paths.
    """

    law_of: Callable[..., EmissionLaw]
    is_wrong: Callable[[EmissionLaw], bool] | None = None
    optimum_of: Callable[[Instance], float] | None = None


@dataclass(frozen=True)
class Findings:
    """What `joint` found of the distribution besides its result; other checks and the report read it.

    ``laws`` by name of the instance, ``instances`` as they were given; ``worst`` is the one that shows a
    defect, None without one; ``smallest_detectable_tv`` would have been found. ``elsewhere`` leads to other
    instances, where that is possible. ``length`` is what the same evidence says of the accepted length, None
    where it says nothing. ``rule`` is a built-in rule with the same law after every draft, of code that
    declares none; ``pair`` verifies by code that takes its randomness as an argument, and by a rule that
    emits the same with it. ``is_reference_wrong`` if an engine reports another law than that of its
    target-only decoding.
    """

    laws: Mapping[str, Law] = field(default_factory=dict)
    instances: Mapping[str, Instance] = field(default_factory=dict)
    worst: str | None = None
    total_variation: float | None = None
    smallest_detectable_tv: float | None = None
    elsewhere: Elsewhere | None = None
    length: CheckResult | None = None
    rule: str | None = None
    pair: Pair | None = None
    is_reference_wrong: bool = False

    @property
    def block_efficiency(self) -> float | None:
        """Mean over the instances, tokens per call."""
        means = [float(law.block_efficiency) for law in self.laws.values()]
        return sum(means) / len(means) if means else None


@dataclass(frozen=True)
class LawResult(CheckResult):
    """The result of a check that a verdict rests on, with what it found of the distribution.

    That is `joint`; of servers `long-texts`, where `joint` is left out. ``findings`` stay in the process of
    the audit.
    """

    findings: Findings = field(default=Findings(), repr=False, compare=False)


def with_findings(result: CheckResult, findings: Findings) -> LawResult:
    """Return the result with what was found of the distribution."""
    return LawResult(**{**vars(result), "findings": findings})


class NoEvidenceError(SpecOracleError):
    """A way of finding a law does not work for this code; the message says why, and the next way is tried."""


class TooSlowError(SpecOracleError):
    """The budget does not suffice for a check; the message says what it takes, ``do`` what to do."""

    def __init__(self, message: str, do: str = "--budget") -> None:
        super().__init__(message)
        self.do = do


def check_result(
    status: Status,
    detail: str,
    *,
    how: How | None = None,
    alpha: float = 0.0,
    draws: int = 0,
    total_variation: float | None = None,
    tokens: int = 0,
    detectable: float | None = None,
    scope: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    proviso: str = "",
    do: str = "",
    completion: WrongCompletion | TextCounterexample | None = None,
    cause: Cause | None = None,
) -> CheckResult:
    """Return the result of a check, or of a part of one, from the fields of its records."""
    measured = Measured(alpha, draws, total_variation, tokens, detectable)
    remarks = Remarks(scope, notes, proviso=proviso, do=do)
    return CheckResult("", status, detail, how, measured, remarks, Shown(completion), cause)


passed = partial(check_result, Status.PASSED)
failed = partial(check_result, Status.FAILED)
inconclusive = partial(check_result, Status.INCONCLUSIVE)
not_asked = partial(check_result, Status.NOT_APPLICABLE)


def breach(error: ContractError, how: How | None = None, alpha: float = 0.0) -> CheckResult:
    """Return the result of a check, or of a part of one, in which the contract was not kept."""
    is_output = isinstance(error, ImpossibleOutputError)
    return failed(str(error), how=how, alpha=alpha, cause=None if is_output else Cause.BROKEN_CONTRACT)


def remarked(
    result: Result, *, scope: tuple[str, ...] | None = None, notes: tuple[str, ...] | None = None
) -> Result:
    """Return the result with other lines for the reader; None leaves them as they are."""
    old = result.remarks
    new = replace(
        old, scope=old.scope if scope is None else scope, notes=old.notes if notes is None else notes
    )
    return replace(result, remarks=new)
