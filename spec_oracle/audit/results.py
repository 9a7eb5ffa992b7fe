"""What an audit says: checks, verdicts, counterexamples, and the report that holds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spec_oracle.exact import Gap
from spec_oracle.toy import Instance

SCHEMA_VERSION = 1


class Status(StrEnum):
    """How one check ended."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not-run"


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
    """One check of one subject; ``detail`` is one line for people.

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
    instances; ``optimum`` is the most that any verifier reaches under the same drafting. ``rule`` is the
    built-in verifier that the subject declares to be.
    """

    subject: str
    verdict: SubjectVerdict
    evidence: Evidence
    checks: tuple[CheckResult, ...]
    alpha: float
    total_variation: float | None = None
    smallest_detectable_tv: float | None = None
    block_efficiency: float | None = None
    optimum: float | None = None
    counterexample: Counterexample | None = None
    version: str | None = None
    rule: str | None = None
    notes: tuple[str, ...] = ()

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
        """0 if every subject is lossless (or lossy as declared), 1 if one is lossy, else 2.

        A lossless subject that fails another check (`length`: it is not the rule it declares) counts as 2,
        unless that failure is on record.
        """
        code = exit_code([subject.verdict for subject in self.subjects])
        strict = [subject for subject in self.subjects if subject.verdict is SubjectVerdict.LOSSLESS]
        news = (c for s in strict for c in s.checks if c.status is Status.FAILED and not c.known)
        return code or (2 if any(news) else 0)


def exit_code(verdicts: Sequence[SubjectVerdict]) -> int:
    """Return the exit code of the command line for these verdicts; nothing tested is 2."""
    if SubjectVerdict.LOSSY in verdicts:
        return 1
    if not verdicts or SubjectVerdict.INCONCLUSIVE in verdicts:
        return 2
    return 0
