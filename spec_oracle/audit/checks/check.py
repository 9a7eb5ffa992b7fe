"""What a check is: a question, its share of the error rate, and a way to answer it for a kind of subject."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.plain import ContractError, SubjectRaisedError
from spec_oracle.statistics import split

Answer: TypeAlias = Callable[[Any, Bench, float], CheckResult]
"""Runs a check on a subject at the bench, at a false-alarm rate."""


def _unknown(subject: Any, bench: Bench) -> None:
    del subject, bench


@dataclass(frozen=True)
class Way:
    """How a check is run on one kind of subject.

    ``requests`` is how many verified requests it costs at most, ``least`` how few will do where a subject is
    slow, None if all are needed; ``of_a_true_law`` marks what compares with the target's law: it says nothing
    more of a subject whose law of one call is wrong, and is not asked then.
    ``known(subject, bench)`` is a result that needs few requests or none, None where there is none.
    """

    run: Answer
    requests: int = 0
    least: int | None = None
    of_a_true_law: bool = False
    known: Callable[[Any, Bench], CheckResult | None] = _unknown


@dataclass(frozen=True, eq=False)
class Check:
    """One question about a subject.

    ``share`` of the run's alpha is the check's, used or not; ``speaks_against_law``: whether its failure
    proves that text is not the target's. ``ways`` and ``reasons`` by class of subject: how it is run, or why
    it does not apply; together they cover all kinds.
    """

    name: str
    question: str
    share: Fraction
    speaks_against_law: bool = False
    ways: dict[type, Way] = field(default_factory=dict)
    reasons: dict[type, str] = field(default_factory=dict)

    def way(self, *kinds: type, **properties: Any) -> Callable[[Answer], Answer]:
        """Register the decorated function as the `Way` to run the check on subjects of these classes."""

        def register(answer: Answer) -> Answer:
            self.ways.update(dict.fromkeys(kinds, Way(answer, **properties)))
            return answer

        return register

    def does_not_apply(self, reason: str, *kinds: type) -> None:
        """Say why there is nothing to ask of subjects of these classes."""
        self.reasons.update(dict.fromkeys(kinds, reason))

    def why_not(self, subject: Any) -> str:
        """Return why there is nothing to ask of the subject, "" where there is."""
        return self.reasons.get(type(subject)) or str(subject.why_not(self.name))

    def outcome(self, subject: Any, bench: Bench) -> CheckResult:
        """Run the check if it applies to the subject; a broken contract, or an exception, is a result."""
        reason = self.why_not(subject)
        if reason:
            return CheckResult(self.name, Status.NOT_APPLICABLE, reason)
        way = self.ways[type(subject)]
        if way.of_a_true_law and bench.is_law_wrong(subject):
            return CheckResult(self.name, Status.NOT_APPLICABLE, "the law of one call is not the target's")
        known = way.known(subject, bench)
        if known is not None:
            return known
        least = way.requests if way.least is None else way.least
        if least and least > bench.affordable(subject):
            detail = f"takes {least} requests, at {bench.pace(subject):.0f} a second; raise --budget"
            return CheckResult(self.name, Status.NOT_RUN, detail)
        alpha = bench.alpha * float(self.share)
        return replace(settled(lambda: way.run(subject, bench, alpha)), name=self.name)


def settled(part: Callable[[], CheckResult]) -> CheckResult:
    """Run a check or a part of one; a broken contract fails it, an exception of the code leaves it open."""
    try:
        return part()
    except ContractError as error:
        return CheckResult("", Status.FAILED, str(error))
    except SubjectRaisedError as error:
        return CheckResult("", Status.INCONCLUSIVE, str(error))


def passed(detail: str, *, draws: int = 0, alpha: float = 0.0) -> CheckResult:
    """Return the result of a check, or of a part of one, that found nothing."""
    return CheckResult("", Status.PASSED, detail, alpha, draws)


def failed(detail: str, *, draws: int = 0, alpha: float = 0.0) -> CheckResult:
    """Return the result of a check, or of a part of one, that found a defect."""
    return CheckResult("", Status.FAILED, detail, alpha, draws)


def together(alpha: float, *parts: Callable[[float], CheckResult]) -> CheckResult:
    """Run the parts of a check, each with its part of ``alpha``, up to the first that fails.

    What one part leaves open does not hide the others. Draws add up. The result is the first failure, else
    the first part that is open, else the last one.
    """
    results: list[CheckResult] = []
    rate = split(alpha, len(parts))
    for part in parts:
        results.append(settled(partial(part, rate)))
        if results[-1].status is Status.FAILED:
            break
    order = (Status.FAILED, Status.INCONCLUSIVE, Status.NOT_RUN)
    chosen = next((r for status in order for r in results if r.status is status), results[-1])
    return replace(chosen, draws=sum(result.draws for result in results))
