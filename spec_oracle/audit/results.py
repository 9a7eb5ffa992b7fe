"""What a check comes to, and what `joint` found besides: results are read by later checks, never replaced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.contracts import ContractError, Emissions, ImpossibleOutputError
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, Gap
from spec_oracle.toy import Instance
from verifiers import Paths

Pair: TypeAlias = Callable[[Paths, np.random.Generator], tuple[Emissions, Emissions]]
"""Verifies drafts by the code and by a reference rule, under the same randomness."""


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
    """The code was handed its random numbers, beside a reference."""
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


class Law(Protocol):
    """What is known of a subject's law on one instance.

    Its distance from the target, tokens per call, P(tau = 0..L), the text with the largest gap, and the law
    of the first L+1 tokens, shape (V,) * (L+1).
    """

    @property
    def instance(self) -> Instance: ...  # noqa: D102
    @property
    def total_variation(self) -> Any: ...  # noqa: D102
    @property
    def block_efficiency(self) -> Any: ...  # noqa: D102
    @property
    def accepted_length_pmf(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def largest_gap(self) -> Gap: ...  # noqa: D102
    def extended(self) -> NDArray[Any]: ...  # noqa: D102


@dataclass(frozen=True)
class WrongCompletion:
    """A completion that an engine generates too often or too rarely; fields as of `Counterexample`."""

    engine: str
    prompt: tuple[int, ...]
    tokens: int
    gap: Gap
    total_variation: float


@dataclass(frozen=True)
class Findings:
    """What `joint` found of the law besides its result; other checks and the report read it.

    ``laws`` by name of the instance, ``instances`` as they were given; ``worst`` is the one that shows a
    defect, None without one; ``smallest_detectable_tv`` would have been found. ``length`` is what the same
    evidence says of the accepted length, None where it says nothing. ``law_of(instance, exact=...)`` is the
    exact law on any other instance, where there is one; ``is_wrong`` says which laws are, where that is not
    decided by their total variation; ``optimum_of`` the most tokens per call there, where that is not the
    optimum over paths. ``is_reference_wrong`` if an engine reports another
    law than that of its target-only decoding. ``rule`` is a built-in rule with the same law after every
    draft, of code that declares none; ``pair`` verifies by code that takes its randomness as an argument, and
    by a rule that emits the same with it. ``traced`` are the laws that were traced of an engine.
    """

    laws: Mapping[str, Law] = field(default_factory=dict)
    total_variation: float | None = None
    smallest_detectable_tv: float | None = None
    instances: Mapping[str, Instance] = field(default_factory=dict)
    worst: str | None = None
    length: "CheckResult | None" = None
    law_of: Callable[..., EmissionLaw] | None = None
    is_wrong: Callable[[EmissionLaw], bool] | None = None
    optimum_of: Callable[[Instance], float] | None = None
    is_reference_wrong: bool = False
    rule: str | None = None
    pair: Pair | None = None
    traced: tuple[Any, ...] = ()

    @property
    def block_efficiency(self) -> float | None:
        """Mean over the instances, tokens per call."""
        means = [float(law.block_efficiency) for law in self.laws.values()]
        return sum(means) / len(means) if means else None


@dataclass(frozen=True)
class CheckResult:
    """One check of one subject; ``detail`` is one line for people, the reason where it was not tried.

    ``how`` it knows, None where it knows nothing. ``alpha`` is the check's false-alarm rate, 0 for one that
    proves; ``draws`` counts sampled requests; ``total_variation`` is the largest that was proven, or its
    lower confidence bound, None where a check measures none. ``known`` is the reason or the page of a failure
    on record, empty for others. ``scope`` and ``notes`` are lines for the reader; ``coverage`` by axis and
    value is that of `shapes`; ``proviso`` completes the verdict. ``breaks_contract`` if
    what failed is no output at all, so that it has no distribution. ``is_undecided`` if it saw a deviation
    from the target's distribution, and could neither confirm nor refute it: the verdict is not lossless then.
    ``shown`` is a completion that shows the defect of an engine or a server; ``again``, of type
    `spec_oracle.audit.failing_inputs.Again`, are inputs on which a check fails, and how to run it on them.
    ``seconds`` is what the check took. ``findings`` stay in the process of the audit.
    """

    name: str
    status: Status
    detail: str
    alpha: float = 0.0
    draws: int = 0
    total_variation: float | None = None
    known: str = ""
    how: How | None = None
    scope: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    proviso: str = ""
    breaks_contract: bool = False
    is_undecided: bool = False
    coverage: Mapping[str, Mapping[str, Cover]] = field(default_factory=dict)
    shown: Any = None
    again: Any = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)
    findings: Findings | None = field(default=None, repr=False, compare=False)

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


class NoEvidenceError(SpecOracleError):
    """A way of finding a law does not work for this code; the message says why, and the next way is tried."""


class TooSlowError(SpecOracleError):
    """The budget does not suffice for a check; the message says what it takes."""


passed = partial(CheckResult, "", Status.PASSED)
failed = partial(CheckResult, "", Status.FAILED)
inconclusive = partial(CheckResult, "", Status.INCONCLUSIVE)
not_asked = partial(CheckResult, "", Status.NOT_APPLICABLE)
"""Results of a check, or of a part of one: each is called with the detail, and fields by name."""


def breach(error: ContractError, **fields: Any) -> CheckResult:
    """Return the result of a check, or of a part of one, in which the contract was not kept."""
    is_output = isinstance(error, ImpossibleOutputError)
    return failed(str(error), breaks_contract=not is_output, **fields)
