"""An audit as one self-contained HTML page: templates/audit.html, and what it needs besides the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import SupportsFloat

import numpy as np

from spec_oracle.audit.reports import (
    AuditReport,
    Counterexample,
    SubjectReport,
    SubjectVerdict,
)
from spec_oracle.audit.results import UNTRIED, Cover, TextCounterexample
from spec_oracle.report import audit_text
from spec_oracle.report.page import environment, page
from spec_oracle.toy import Instance
from spec_oracle.version import tool_version

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


def _names(report: AuditReport) -> list[str]:
    """Return the checks that were run of any subject, in their order."""
    checks = [check for subject in report.subjects for check in subject.checks]
    run = {check.name for check in checks if check.status not in UNTRIED}
    return [name for name in dict.fromkeys(check.name for check in checks) if name in run]


def audit_to_html(report: AuditReport) -> str:
    """Return the page: verdicts and headroom, then each subject, its counterexample first."""
    reader = environment()
    reader.filters.update(
        mark=audit_text.mark,
        clause=audit_text.clause,
        statistics=audit_text.statistics,
        again_lines=audit_text.again_lines,
        counterexample=audit_text.counterexample_text,
        named=lambda check: (check.name, check),
        bar=lambda headroom: f"{100 * min(max(headroom, 0.0), 1.0):.1f}",
        tree=_tree,
        untried=_untried,
    )
    reader.globals.update(SIGNS=SIGNS, COVERED=COVERED)
    rows = zip(audit_text.audit_rows(report), report.subjects, strict=True)
    return page(
        reader.get_template("audit.html"),
        title="spec-oracle audit",
        report=report,
        date=datetime.now(UTC).date(),
        version=tool_version(),
        closing=audit_text.closing_line(report),
        head=audit_text.HEAD,
        names=_names(report),
        subjects=[(subject, (*cells, *_facts(subject))) for cells, subject in rows],
    )


def _facts(subject: SubjectReport) -> Iterator[str]:
    rule = audit_text.rule_of(subject)
    facts = {"kind": subject.kind, "version": subject.code.version, "rule": rule}
    yield from (f"{name} {value}" for name, value in facts.items() if value)


def _untried(subject: SubjectReport) -> list[str]:
    untried = [check for check in subject.checks if check.status in UNTRIED]
    return audit_text.check_lines(untried)


@dataclass(frozen=True)
class _Beginning:
    """The beginning of an output: its probability as expected and as found, and the gap below it."""

    context: tuple[int, ...]
    expected: SupportsFloat
    actual: SupportsFloat
    gap: float

    @property
    def differs(self) -> bool:
        return abs(float(self.actual) - float(self.expected)) > _EQUAL

    @staticmethod
    def bar(probability: SupportsFloat) -> str:
        return f"{96 * max(float(probability), 0.0):.1f}"


def _tree(found: Counterexample | TextCounterexample) -> tuple[list[_Beginning], int] | None:
    """Return the beginnings of the output that differ, in the order of the rows, and where bars begin.

    What is right is not followed further down, nor, in large trees, what is nearly right.
    """
    if isinstance(found, TextCounterexample) or found.instance is None:  # one completion, after a prompt
        return None
    levels = _levels(found.instance, found.actual)
    threshold = _EQUAL
    while len(nodes := list(_visible(levels, (), threshold))) > _ROWS:
        threshold = max(2 * threshold, 1e-4)
    return nodes, 14 * len(levels) + 16


def _levels(instance: Instance, found: Sequence[SupportsFloat]) -> list[Mapping[tuple[int, ...], _Beginning]]:
    """Return the nodes by context, level by level from the root to the whole outputs."""
    depth = instance.draft_length + 1
    shape = (instance.vocab_size,) * depth
    expected = instance.exact.target.joint(depth).reshape(shape)
    actual = np.array(found, dtype=object).reshape(shape)
    gaps = abs(actual - expected).astype(float)
    levels: list[Mapping[tuple[int, ...], _Beginning]] = []
    for _ in range(depth + 1):
        nodes = {
            at: _Beginning(at, expected[at], actual[at], float(gaps[at])) for at in np.ndindex(gaps.shape)
        }
        levels.insert(0, nodes)
        if gaps.ndim:
            expected, actual, gaps = (np.asarray(array.sum(axis=-1)) for array in (expected, actual, gaps))
    return levels


def _visible(
    levels: Sequence[Mapping[tuple[int, ...], _Beginning]], context: tuple[int, ...], threshold: float
) -> Iterator[_Beginning]:
    """Yield a node and what differs below it, in the order of the rows."""
    node = levels[len(context)][context]
    yield node
    if len(context) + 1 < len(levels) and node.gap > threshold:
        for below in levels[len(context) + 1]:
            if below[:-1] == context:
                yield from _visible(levels, below, threshold)
