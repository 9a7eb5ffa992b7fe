"""What an audit says: checks, verdicts, counterexamples, and the report that holds them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spec_oracle.exact import Gap
from spec_oracle.toy import Instance

SCHEMA_VERSION = 2


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
    """Left out by the user."""


UNTRIED = (Status.NOT_RUN, Status.NOT_APPLICABLE, Status.SKIPPED)


class SubjectVerdict(StrEnum):
    """What the checks say of a subject."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"
    INCONCLUSIVE = "inconclusive"
    DECLARED_LOSSY = "declared-lossy"


class Evidence(StrEnum):
    """The strongest kind of evidence behind a verdict."""

    EXACT = "exact"
    REPLAYED = "replayed"
    STATISTICAL = "statistical"
    NONE = "none"


@dataclass(frozen=True)
class CheckResult:
    """One check of one subject; ``detail`` is one line for people, the reason where it was not tried.

    ``alpha`` is the check's false-alarm rate, 0 for one that proves; ``draws`` counts sampled requests;
    ``total_variation`` is the largest that was proven, or its lower confidence bound, None where a check
    measures none. ``known`` is the reason or the page that tells of a failure on record, empty for others.
    """

    name: str
    status: Status
    detail: str
    alpha: float = 0.0
    draws: int = 0
    total_variation: float | None = None
    known: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether it leaves nothing open: passed, not to be asked, left out by the user, or failed as known.

        A check that passes although its failure is on record is not settled: the record is out of date.
        """
        if self.status is Status.FAILED:
            return bool(self.known)
        if self.status is Status.PASSED:
            return not self.known
        return self.status in (Status.NOT_APPLICABLE, Status.SKIPPED)


@dataclass(frozen=True)
class Counterexample:
    """The smallest instance found on which the subject is lossy, and how to see it again.

    ``gap`` holds the sequence with the largest gap; ``reproduce`` is a command line; ``file`` is where the
    instance was saved.
    """

    instance: Instance
    gap: Gap
    total_variation: Any
    file: str | None
    reproduce: str


@dataclass(frozen=True)
class SubjectReport:
    """All that was found about one subject.

    ``total_variation`` is the largest over the instances tried (tokens' probability mass): exact, or as
    estimated from draws. ``block_efficiency`` and ``optimum`` (tokens per call) are means over those
    instances; ``optimum`` is the most that any verifier reaches under the same drafting. ``scope`` says in
    lines what the verdict covers; ``rule`` is the built-in verifier that the subject declares to be, or was
    identified as, by equal laws.
    ``output`` is what the code under test printed, shortened; ``error`` says why it could not be
    audited at all: a name that leads nowhere, or a fault of ours.
    """

    subject: str
    kind: str
    verdict: SubjectVerdict
    evidence: Evidence
    checks: tuple[CheckResult, ...]
    alpha: float
    scope: tuple[str, ...] = ()
    total_variation: float | None = None
    smallest_detectable_tv: float | None = None
    block_efficiency: float | None = None
    optimum: float | None = None
    counterexample: Counterexample | None = None
    version: str | None = None
    rule: str | None = None
    rule_identified: bool = False
    notes: tuple[str, ...] = ()
    output: str = ""
    error: str = ""

    @property
    def headroom(self) -> float | None:
        """The share of the optimum that the subject leaves unused."""
        if self.block_efficiency is None or not self.optimum:
            return None
        return 1 - self.block_efficiency / self.optimum


@dataclass(frozen=True)
class AuditReport:
    """The reports of all subjects of one run, and the command line behind it."""

    subjects: tuple[SubjectReport, ...]
    seed: int
    alpha: float
    command: str = ""

    @property
    def exit_code(self) -> int:
        """What a command that shows this report ends with; 0 is earned, see docs/json-schema.md.

        1 if a subject is lossy; else 3 if a name led nowhere or we failed; else 2 if nothing was tested, a
        verdict is missing, or a check is not settled; else 0.
        """
        verdicts = [subject.verdict for subject in self.subjects]
        if SubjectVerdict.LOSSY in verdicts:
            return 1
        if any(subject.error for subject in self.subjects):
            return 3
        checks = [check for subject in self.subjects for check in subject.checks]
        open_ = SubjectVerdict.INCONCLUSIVE in verdicts or not all(check.is_settled for check in checks)
        return 2 if open_ or not checks else 0
