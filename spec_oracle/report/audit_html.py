"""An audit as one self-contained HTML page; pages and pictures from the folder templates."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import SupportsFloat

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from spec_oracle.arrays import Numbers
from spec_oracle.audit.reports import AuditReport, Counterexample, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import UNTRIED, CheckResult, Cover, Status, TextCounterexample
from spec_oracle.installed import tool_version
from spec_oracle.report import audit_text, reading, what_to_do
from spec_oracle.report.audit_junit import NO_XML
from spec_oracle.report.table import percent, short

DOTS = {Status.PASSED: "●", Status.FAILED: "✗", Status.INCONCLUSIVE: "?", **dict.fromkeys(UNTRIED, "")}
"""The cells of a heat map of checks."""

SIGNS = {
    SubjectVerdict.LOSSLESS: "✓",
    SubjectVerdict.LOSSY: "✗",
    SubjectVerdict.INCONCLUSIVE: "?",
    SubjectVerdict.BROKEN: "✗",
    SubjectVerdict.DECLARED_LOSSY: "!",
}

COVERED = {
    Cover.PROVEN: "✓",
    Cover.REPRESENTED: "✓*",
    Cover.SAMPLED: "≈",
    Cover.WRONG: "✗",
    Cover.NOT_TRACED: "?",
    Cover.UNTRIED: "–",
}

_ROWS = 60
"""Rows of a tree that a reader still follows."""

_EQUAL = 1e-9


def environment() -> Environment:
    """Return what reads our templates: everything that they show is escaped, nothing may be missing."""
    made = Environment(
        loader=PackageLoader("spec_oracle.report"),
        autoescape=True,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(short=short, percent=percent)
    made.globals.update(DOTS=DOTS, UNTRIED=UNTRIED)
    return made


def page(template: Template, **shown: object) -> str:
    """Return a template with what it shows; characters that HTML cannot hold are replaced."""
    return NO_XML.sub("\ufffd", template.render(**shown))


def drawing(name: str, *shown: object) -> Markup:
    """Return a picture of `drawings.html` as inline SVG, on one line: a page of Markdown may hold it."""
    made = getattr(environment().get_template("drawings.html").module, name)(*shown)
    return Markup(" ".join(made.split("\n")))  # noqa: S704  # it was escaped by the template


def audit_to_html(report: AuditReport) -> str:
    """Return the page: subjects with open checks, then verdicts and headroom, then the other subjects."""
    reader = environment()
    reader.filters.update(
        mark=audit_text.mark,
        clause=audit_text.clause,
        statistics=audit_text.statistics,
        shown=_shown,
        coded=_coded,
        counterexample=lambda found: "\n".join(audit_text.counterexample_lines(found)[0]),
        headline=reading.headline,
        open_checks=reading.open_checks,
        passed=lambda subject: reading.passed_line(subject.checks),
        next_steps=lambda subject: what_to_do.next_steps(subject, report.command),
        named=lambda check: (check.name, check),
        bar=lambda headroom: f"{100 * min(max(headroom, 0.0), 1.0):.1f}",
        tree=_tree,
        untried=_untried,
    )
    reader.globals.update(SIGNS=SIGNS, COVERED=COVERED, NUMBERS=audit_text.NUMBERS)
    head, rows = audit_text.audit_table(report)
    first = {subject.subject for subject in report.subjects if not reading.is_plainly_lossless(subject)}
    return page(
        reader.get_template("audit.html"),
        title="spec-oracle audit",
        report=report,
        date=datetime.now(UTC).date(),
        version=tool_version(),
        closing=audit_text.closing_line(report),
        head=head,
        names=reading.tried_names(report),
        rows=[*zip(report.subjects, rows, strict=True)],
        first=[subject for subject in reading.first_what_is_open(report) if subject.subject in first],
        others=[subject for subject in report.subjects if subject.subject not in first],
        facts=_facts,
    )


def _shown(subject: SubjectReport, check: CheckResult, command: str) -> list[str]:
    """Return what shows a failure, without what the picture of the counterexample shows."""
    found = subject.counterexample
    drawn = audit_text.counterexample_lines(found)[0][1:] if found else []
    return [line for line in audit_text.failure_lines(subject, check, command) if line not in drawn]


def _coded(text: str) -> Markup:
    """Return a line, with the words in backticks as code."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts)
    )


def _facts(subject: SubjectReport) -> str:
    rule = reading.rule_of(subject)
    facts = {"kind": subject.kind, "version": subject.code.version, "rule": rule}
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value)


def _untried(subject: SubjectReport) -> list[str]:
    untried = [check for check in subject.checks if check.status in UNTRIED and check.is_settled]
    return audit_text.check_lines(untried)


@dataclass(frozen=True)
class _Beginning:
    """The beginning of an output, and its probability as expected and as found."""

    context: tuple[int, ...]
    expected: SupportsFloat
    actual: SupportsFloat

    @property
    def differs(self) -> bool:
        return abs(float(self.actual) - float(self.expected)) > _EQUAL

    @staticmethod
    def bar(probability: SupportsFloat) -> str:
        return f"{96 * max(float(probability), 0.0):.1f}"


def _tree(found: Counterexample | TextCounterexample) -> tuple[list[_Beginning], int] | None:
    """Return the beginnings of the output whose probabilities differ, top to bottom, and where bars begin.

    What is right is not followed further down, nor, in large trees, what is nearly right.
    """
    if isinstance(found, TextCounterexample) or found.instance is None:  # one completion, after a prompt
        return None
    depth = found.instance.draft_length + 1
    shape = (found.instance.vocab_size,) * depth
    expected = found.instance.exact.target.joint(depth).reshape(shape)
    actual = np.array(found.actual, dtype=object).reshape(shape)
    threshold = _EQUAL
    while len(nodes := list(_visible(expected, actual, threshold))) > _ROWS:
        threshold = max(2 * threshold, 1e-4)
    return nodes, 14 * (depth + 1) + 16


def _visible(
    law: Numbers, found: Numbers, threshold: float, context: tuple[int, ...] = ()
) -> Iterator[_Beginning]:
    """Yield a beginning and those below it that differ, top to bottom; laws have an axis a further token."""
    yield _Beginning(context, law.sum(), found.sum())
    if law.ndim and abs(found - law).sum() > threshold:
        for token, (ours, theirs) in enumerate(zip(law, found, strict=True)):
            yield from _visible(np.asarray(ours), np.asarray(theirs), threshold, (*context, token))
