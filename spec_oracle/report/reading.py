"""The first lines on a subject: its verdict, its open checks, and the checks that passed.

Every form of a report shows these in this order. Evidence has one vocabulary, the words of `How`.
"""

from collections.abc import Sequence

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.reports import AuditReport, Evidence, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import UNTRIED, CheckResult, How, Status
from spec_oracle.audit.sampler.unexecuted_lines import NOT_JUDGED
from spec_oracle.audit.verdict import basis_of
from spec_oracle.report.table import short

EVIDENCE_WORDS = {
    Evidence.EXACT: How.PROVEN.value,
    Evidence.REPLAYED: How.REPLAYED.value,
    Evidence.STATISTICAL: How.SAMPLED.value,
    Evidence.NONE: "-",
}
"""The words for people of the kinds of evidence: those in which a check says how it knows."""

_OPEN = {
    Status.FAILED: "failed",
    Status.INCONCLUSIVE: "not decided",
    Status.NOT_RUN: "not run",
    Status.PASSED: "passes now",
    Status.NOT_APPLICABLE: "does not apply",
}


def open_checks(subject: SubjectReport) -> list[CheckResult]:
    """Return what keeps a subject from exit code 0: failures first, of these what decides the verdict."""
    found = [check for check in subject.checks if not check.is_settled and not subject.error]
    order = list(_OPEN)

    def place(check: CheckResult) -> tuple[int, bool]:
        return order.index(check.status), check.status is Status.FAILED and not _is_against_law(check)

    return sorted(found, key=place)


def _is_against_law(check: CheckResult) -> bool:
    return check.name in CHECKS and CHECKS[check.name].against_law


def open_words(subject: SubjectReport) -> str:
    """Return which checks failed and which are not decided, "" where nothing is open."""
    by_word: dict[str, list[str]] = {}
    for check in open_checks(subject):
        by_word.setdefault(_OPEN[check.status], []).append(check.name)
    return "; ".join(f"{names_of(names, subject)} {word}" for word, names in by_word.items())


def names_of(names: Sequence[str], subject: SubjectReport) -> str:
    """Return the names of checks in a line, in two words where they are all that were asked for."""
    return "every check" if 1 < len(names) == len(subject.checks) else ", ".join(names)


def first_open_words(subject: SubjectReport) -> str:
    """Return which check failed or is not decided, and how many more, "" where nothing is open."""
    if subject.error:
        return "not audited"
    found = open_checks(subject)
    if len({check.status for check in found}) == 1 < len(found) == len(subject.checks):
        return open_words(subject)
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    return f"{found[0].name} {_OPEN[found[0].status]}{more}" if found else ""


def evidence_word(subject: SubjectReport) -> str:
    """Return how the verdict is known; of engines how far it goes."""
    if subject.reach.words and subject.verdict is not SubjectVerdict.LOSSY:
        return subject.reach.words
    is_exact = subject.evidence is Evidence.EXACT and bool(subject.checks)
    if is_exact and basis_of(subject.checks).how is How.REPRESENTED:
        return How.REPRESENTED.value
    return EVIDENCE_WORDS[subject.evidence]


def total_variation_text(subject: SubjectReport) -> str:
    """Return the total variation of what failed, where it did, else that of the distribution found."""
    failed = [check for check in subject.checks if check.status is Status.FAILED and _is_against_law(check)]
    sizes = [
        (check.measured.total_variation, check.how is How.SAMPLED)
        for check in failed
        if check.measured.total_variation  # a lower bound of 0 says nothing
    ]
    if sizes:
        largest, is_bound = max(sizes)
        return f"{'>= ' * is_bound}{short(largest, 2)}"
    is_of_joint = any(check.name == "joint" for check in failed) and subject.total_variation
    return short(subject.total_variation, 2) if is_of_joint or not failed else "-"


def headline(subject: SubjectReport) -> str:
    """Return the verdict in one line, with the open checks and how far it goes."""
    proviso = f", {subject.remarks.proviso}" if subject.remarks.proviso else ""
    return f"{subject.subject}: {subject.verdict.value}{proviso}{_how_far(subject)}"


def _how_far(subject: SubjectReport) -> str:
    """Return the open checks, and the checks that the verdict rests on."""
    verdict, open_, word = subject.verdict, open_words(subject), evidence_word(subject)
    if subject.error:
        return ": it could not be audited"
    if verdict is SubjectVerdict.BROKEN:
        return ": it does not keep its contract, so that there is no distribution to judge"
    rule = [f"rule {rule_of(subject)}"] if subject.rule else []
    if verdict is SubjectVerdict.LOSSY:
        return "; ".join([f" ({word})" if word != "-" else "", *rule])
    if verdict is SubjectVerdict.INCONCLUSIVE or not subject.checks:
        return f": {open_}" if open_ else ""
    rests_on = [basis_of(subject.checks), *(check for check in subject.checks if check.name == "shapes")]
    found = [check.detail.partition("; ")[0] for check in rests_on if check.status is Status.PASSED]
    found = [subject.reach.sentence] if subject.reach.words else found
    return "; ".join([f", but {open_}" if open_ else "", *found, *rule])


def rule_of(subject: SubjectReport) -> str:
    """Return the rule that a subject declares to be, or was found to be; "" where neither is known."""
    return f"{subject.rule or ''}{' (identified)' if subject.rule_identified else ''}"


def finding(subject: SubjectReport) -> str:
    """Return the verdict and the first thing that is open, in one line: "" where nothing is."""
    for check in open_checks(subject):
        how = f"{check.name} {_OPEN[check.status]}"
        return f"{subject.subject}: {subject.verdict.value}: {how}: {check.detail}"
    return f"{subject.subject}: {subject.error}" if subject.error else ""


def is_only_named(check: CheckResult) -> bool:
    """Whether a check passed, and what it found is no news: that of `baseline` is."""
    return check.status is Status.PASSED and check.is_settled and check.name != "baseline"


def passed_line(checks: Sequence[CheckResult]) -> str:
    """Return what passed, with how it is known; "" where nothing did."""
    by_word: dict[str, list[str]] = {}
    for check in checks:
        if is_only_named(check):
            by_word.setdefault(check.word.value, []).append(check.name)
    groups = ", ".join(f"{', '.join(names)} ({word})" for word, names in by_word.items())
    return groups and f"passed: {groups}"


def is_plainly_lossless(subject: SubjectReport) -> bool:
    """Whether a subject needs no more than its row of the table."""
    is_quiet = not subject.error and not open_checks(subject)
    is_quiet &= not any(note.startswith(NOT_JUDGED) for note in subject.remarks.notes)
    return is_quiet and subject.verdict is SubjectVerdict.LOSSLESS


def first_what_is_open(report: AuditReport) -> list[SubjectReport]:
    """Return the subjects in the order of reading: those with open checks come first."""
    return sorted(report.subjects, key=lambda subject: not (subject.error or open_checks(subject)))


def tried_names(report: AuditReport) -> list[str]:
    """Return the checks that were run of any subject, in their order."""
    checks = [check for subject in report.subjects for check in subject.checks]
    run = {check.name for check in checks if check.status not in UNTRIED}
    return [name for name in dict.fromkeys(check.name for check in checks) if name in run]
