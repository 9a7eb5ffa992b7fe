"""What an audit says of subjects: verdicts, counterexamples, figures, and the report that holds them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from spec_oracle.audit.results import (
    NO_REMARKS,
    CheckResult,
    How,
    Number,
    Remarks,
    Status,
    TextCounterexample,
)
from spec_oracle.exact import Gap
from spec_oracle.notebook import number, table
from spec_oracle.toy import Instance

SCHEMA_VERSION = 3


class SubjectVerdict(StrEnum):
    """What the checks say of a subject."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"
    INCONCLUSIVE = "inconclusive"
    BROKEN = "broken"
    """It does not keep its contract, so that there is no distribution to judge."""
    DECLARED_LOSSY = "declared-lossy"


class Evidence(StrEnum):
    """The strongest kind of evidence behind a verdict."""

    EXACT = "exact"
    REPLAYED = "replayed"
    STATISTICAL = "statistical"
    NONE = "none"


@dataclass(frozen=True)
class Counterexample:
    """The smallest instance found on which the subject is lossy, and how to see it again.

    ``gap`` holds the sequence with the largest gap; ``actual`` the mass of every text of L+1 tokens as found,
    in lexicographic order; ``reproduce`` is a command line; ``file`` is where the instance was saved. An
    engine has no ``instance``: it generates another law of texts of at most ``tokens`` tokens after
    ``prompt``. ``not_saved`` says which file could not be written, and why. ``actual`` are shares of so many
    ``samples``, 0 where they are exact.
    """

    instance: Instance | None
    gap: Gap
    total_variation: Number
    actual: tuple[Number, ...]
    file: str | None
    reproduce: str
    prompt: tuple[int, ...] = ()
    tokens: int | None = None
    not_saved: str = ""
    samples: int = 0


@dataclass(frozen=True)
class InstanceFigures:
    """What was found of one call on one instance.

    ``digest`` names the instance by its rows. ``block_efficiency`` and ``optimum`` (the most that any
    verifier reaches under the same drafting) in tokens per call; ``accepted_length`` is P(tau = 0..L),
    ``of_rule`` that of the declared rule, empty where none is declared.
    """

    name: str
    digest: str
    block_efficiency: float
    optimum: float | None
    accepted_length: tuple[float, ...]
    of_rule: tuple[float, ...] = ()


@dataclass(frozen=True)
class AuditedCode:
    """The code behind a report: its version, where it is, which lines ran, and what it printed.

    ``place`` is "file:line" where anything is open, else ""; ``lines`` are those of users' files that
    recorded calls ran, by file; ``output`` is shortened.
    """

    version: str | None = None
    place: str = ""
    lines: Mapping[str, set[int]] = field(default_factory=dict, repr=False)
    output: str = ""


@dataclass(frozen=True)
class Reach:
    """How far completions were judged and found right: ``tokens`` of the longest, and what would show there.

    ``exact`` is (tokens, total variation) where every outcome was run; ``sampled`` is (tokens, total
    variation), of a token where ``by_token`` each was judged by its own distribution. None where there is no
    such.
    """

    exact: tuple[int, float] | None = None
    sampled: tuple[int, float] | None = None
    by_token: bool = False

    @property
    def words(self) -> str:
        """In a few words, "" where completions were not judged."""
        exact = f"proven to {self.exact[0]} tokens" if self.exact else ""
        sampled = f"sampled to {self.sampled[0]}{'' if exact else ' tokens'}" if self.sampled else ""
        return ", ".join(filter(None, (exact, sampled)))

    @property
    def sentence(self) -> str:
        """As a sentence, with the total variations."""
        found = []
        if self.exact:
            tokens, tv = self.exact
            found.append(
                f"every outcome of completions of up to {tokens} tokens was run (a total variation of "
                f"{tv:.1g} would show)"
            )
        if self.sampled and self.by_token:
            tokens, tv = self.sampled
            found.append(
                f"tokens of sampled completions of up to {tokens} tokens were judged one by one (a total "
                f"variation of {tv:.2g} a token between ten bins by p would show)"
            )
        elif self.sampled:
            tokens, tv = self.sampled
            found.append(
                f"completions of up to {tokens} tokens were sampled (a total variation of {tv:.2g} "
                "would show)"
            )
        return "; ".join(found)


@dataclass(frozen=True)
class SubjectReport:
    """All that was found about one subject.

    ``total_variation`` is the largest over the instances tried (tokens' probability mass): exact, or as
    estimated from draws. ``figures`` are those of each instance, ``block_efficiency`` and ``optimum`` (tokens
    per call) their means. ``remarks`` say in lines what the verdict covers; ``rule`` is the built-in verifier
    that the subject declares to be, or was identified as, by equal laws. ``error`` says why it could not be
    audited at all: a name that leads nowhere, or a fault of ours. ``again`` is the check of which only saved
    inputs were run, "" as a rule; ``as_on`` the day on which a result was found that is reused.
    """

    subject: str
    kind: str
    verdict: SubjectVerdict
    evidence: Evidence
    checks: tuple[CheckResult, ...]
    alpha: float
    remarks: Remarks = NO_REMARKS
    total_variation: float | None = None
    smallest_detectable_tv: float | None = None
    figures: tuple[InstanceFigures, ...] = ()
    counterexample: Counterexample | TextCounterexample | None = None
    rule: str | None = None
    rule_identified: bool = False
    code: AuditedCode = AuditedCode()
    error: str = ""
    again: str = ""
    as_on: str = ""

    def __repr__(self) -> str:
        """Return the verdict in a line."""
        return f"<SubjectReport: {self.subject} {self.verdict}, evidence {self.evidence}>"

    @property
    def reach(self) -> Reach:
        """How far completions were judged."""
        exact: tuple[int, float] | None = None
        sampled: tuple[int, float, bool] | None = None
        for check in self.checks:
            found, tv = check.measured.tokens, check.measured.detectable
            if check.status is not Status.PASSED or not found or tv is None:
                continue
            if check.how is How.SAMPLED:
                sampled = max(sampled or (0, 0.0, False), (found, tv, check.name == "long-texts"))
            else:
                exact = max(exact or (0, 0.0), (found, tv))
        if sampled is None or sampled[:2] <= (exact or (0, 0.0)):
            return Reach(exact)
        return Reach(exact, sampled[:2], sampled[2])

    @property
    def seconds(self) -> float:
        """What its checks took."""
        return sum(check.seconds for check in self.checks)

    @property
    def block_efficiency(self) -> float | None:
        """Tokens per call, mean over the instances."""
        return _mean(figures.block_efficiency for figures in self.figures)

    @property
    def optimum(self) -> float | None:
        """The most tokens per call that any verifier reaches, mean over the instances."""
        optima = [figures.optimum for figures in self.figures]
        return None if None in optima else _mean(value for value in optima if value is not None)

    @property
    def headroom(self) -> float | None:
        """The share of the optimum that the subject leaves unused."""
        if self.block_efficiency is None or not self.optimum:
            return None
        return 1 - self.block_efficiency / self.optimum


def _mean(numbers: Iterable[float]) -> float | None:
    listed = list(numbers)
    return sum(listed) / len(listed) if listed else None


@dataclass(frozen=True)
class AuditReport:
    """The reports of all subjects of one run, the command line behind it, and how long it took."""

    subjects: tuple[SubjectReport, ...]
    seed: int
    alpha: float
    command: str = ""
    seconds: float = 0.0

    def __repr__(self) -> str:
        """Return the verdicts and the exit code in a line."""
        verdicts = ", ".join(f"{one.subject} {one.verdict}" for one in self.subjects)
        return f"<AuditReport: {verdicts or 'no subjects'}; exit code {self.exit_code}>"

    def _repr_html_(self) -> str:
        """Return the table of verdicts for a notebook, with the checks that did not pass."""
        rows = [
            (
                one.subject,
                one.verdict,
                one.evidence,
                number(one.total_variation),
                number(one.block_efficiency),
                "; ".join(f"{check.name}: {check.detail}" for check in one.checks if not check.is_settled),
            )
            for one in self.subjects
        ]
        head = ("subject", "verdict", "evidence", "total variation", "tokens/call", "not passed")
        return table(f"spec-oracle audit: exit code {self.exit_code}", head, rows)

    @property
    def exit_code(self) -> int:
        """What a command that shows this report ends with; 0 is earned, see docs/reference/json-schema.md.

        1 if a subject is lossy; else 3 if one breaks its contract, a name led nowhere, or we failed; else 2
        if nothing was tested, a verdict is missing, or a check is not settled; else 0. Where only the saved
        inputs of a failed check were run, 1 if it fails again, 0 if it passes now.
        """
        verdicts = [subject.verdict for subject in self.subjects]
        if SubjectVerdict.LOSSY in verdicts:
            return 1
        if SubjectVerdict.BROKEN in verdicts or any(subject.error for subject in self.subjects):
            return 3
        checks = [check for subject in self.subjects for check in subject.checks]
        if tried := [c for s in self.subjects for c in s.checks if s.again == c.name]:
            return max({Status.PASSED: 0, Status.FAILED: 1}.get(check.status, 2) for check in tried)
        open_ = SubjectVerdict.INCONCLUSIVE in verdicts or not all(check.is_settled for check in checks)
        return 2 if open_ or not checks else 0
