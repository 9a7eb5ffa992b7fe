"""An audit for people: a table, then what is wrong and how to see it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from spec_oracle.audit import AuditReport, CheckResult, Counterexample, Status, SubjectReport
from spec_oracle.audit.engine.cases import counted, text_of
from spec_oracle.audit.reports import TextCounterexample
from spec_oracle.audit.subjects import Listed
from spec_oracle.report.table import short
from spec_oracle.report.table import markdown_table, text_table
from spec_oracle.toy import Instance, ToyModel, context_text
from spec_oracle.version import tool_version

HEAD = ("subject", "verdict", "evidence", "TV", "finds TV", "tokens/call", "optimum", "headroom")
_SHOWN_CONTEXTS = 13


def audit_rows(report: AuditReport) -> list[tuple[str, ...]]:
    """Return the cells of the table, one row a subject."""
    return [
        (
            _title(subject),
            subject.verdict.value,
            subject.evidence.value,
            short(subject.total_variation, 2),
            short(subject.smallest_detectable_tv, 2),
            short(subject.block_efficiency),
            short(subject.optimum),
            "-" if subject.headroom is None else f"{100 * subject.headroom:.1f} %",
        )
        for subject in report.subjects
    ]


def _title(subject: SubjectReport) -> str:
    if subject.version is None or "@" in subject.subject:
        return subject.subject
    return f"{subject.subject} {subject.version}"


def audit_to_text(report: AuditReport) -> str:
    """Return the report for a terminal."""
    parts = [text_table(HEAD, audit_rows(report), right=(3, 4, 5, 6, 7))]
    for subject in report.subjects:
        told = [f"  {line}" for line in _remarks(subject)]
        if subject.counterexample is not None:
            told.append(counterexample_text(subject.counterexample))
        if told:
            parts.append("\n".join([f"{subject.subject}: {subject.verdict.value}", *told]))
    parts += ["\n".join(_scopes(report)), summary(report)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _scopes(report: AuditReport) -> Iterator[str]:
    """Yield rules, what the verdicts cover, and what does not apply; equal lines once for all subjects."""
    lines: dict[str, list[str]] = {}
    for subject in report.subjects:
        if subject.rule is not None:
            lines.setdefault(f"rule: {_rule(subject)}", []).append(subject.subject)
        for line in subject.scope:
            lines.setdefault(f"scope: {line}", []).append(subject.subject)
        for check in subject.checks:
            if check.status is Status.NOT_APPLICABLE:
                lines.setdefault(f"{check.name} does not apply: {check.detail}", []).append(subject.subject)
    yield from (f"{line} [{', '.join(names)}]" for line, names in lines.items())


def _rule(subject: SubjectReport) -> str:
    return f"{subject.rule or ''}{' (identified)' if subject.rule_identified else ''}"


def audit_to_markdown(report: AuditReport) -> str:
    """Return the report as Markdown: for a CI step summary, or to be kept as a page."""
    command = report.command or "audit(...)"
    return markdown_page(page_rows(report), command, report.alpha, report.seed)


def page_rows(report: AuditReport) -> list[dict[str, Any]]:
    """Return what a page needs, subject by subject, as data."""
    return [
        {
            **_counted(subject),
            "cells": [*row, _rule(subject), "; ".join((*_remarks(subject), *subject.scope))],
            "counterexample": subject.counterexample
            and f"## {subject.subject}\n\n```\n{counterexample_text(subject.counterexample)}\n```",
        }
        for row, subject in zip(audit_rows(report), report.subjects, strict=True)
    ]


def markdown_page(rows: Sequence[Mapping[str, Any]], command: str, alpha: float, seed: int) -> str:
    """Return the page that ``command`` makes of the `page_rows` of subjects."""
    made = f"Made on {datetime.now(UTC).date()} by `{command}`, spec-oracle {tool_version()}."
    table = markdown_table((*HEAD, "rule", "remarks"), [row["cells"] for row in rows])
    examples = (row["counterexample"] for row in rows)
    parts = ["# spec-oracle audit", made, table, *filter(None, examples), _summary(rows, alpha, seed)]
    return "\n\n".join(parts) + "\n"


def _remarks(subject: SubjectReport) -> list[str]:
    """Return what a reader should know of a subject, line by line; nothing of one that passed everything."""
    printed = [f"printed: {line}" for line in subject.output.splitlines()]
    return [*check_lines(subject.checks), *(f"note: {note}" for note in subject.notes), *printed]


def list_to_text(listed: Iterable[Listed]) -> str:
    """Return what can be audited by name: a table a group, and how to get what is not here."""
    parts = [
        text_table(
            (group, "verifies", "what it is"), [(one.name, one.verifies, one.about) for one in members]
        )
        for group, members in groupby(listed, lambda one: one.group)
    ]
    hint = "`spec-oracle audit NAME` says how to get an engine that is not here; your code: module:object"
    return "\n\n".join([*parts, hint]) + "\n"


def check_lines(checks: Iterable[CheckResult]) -> Iterator[str]:
    """Yield a line for every check that failed or could not tell, and one for each reason not to run."""
    untried: dict[tuple[Status, str], list[str]] = {}
    for check in checks:
        if check.status in (Status.NOT_RUN, Status.SKIPPED):
            untried.setdefault((check.status, check.detail), []).append(check.name)
        elif check.status in (Status.FAILED, Status.INCONCLUSIVE):
            known = f" (known: {check.known})" if check.known else ""
            yield f"{check.name}: {check.status.value}, {check.detail}{known}"
        elif check.known:
            told = "passed" if check.status is Status.PASSED else f"does not apply ({check.detail})"
            yield f"{check.name}: {told}, but is on record ({check.known}): take it off"
    for (status, reason), names in untried.items():
        yield f"{status.value.replace('-', ' ')}: {', '.join(names)} ({reason})"


def summary(report: AuditReport) -> str:
    """Return how many subjects have which verdict, the rate of false alarms, and the seed."""
    return _summary([_counted(subject) for subject in report.subjects], report.alpha, report.seed)


def _counted(subject: SubjectReport) -> dict[str, Any]:
    """Return what a summary needs of a subject, as data."""
    is_drawn = any(check.alpha > 0 for check in subject.checks)
    return {"verdict": subject.verdict.value, "is_drawn": is_drawn}


def _summary(rows: Sequence[Mapping[str, Any]], alpha: float, seed: int) -> str:
    counts = Counter(row["verdict"] for row in rows)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    is_drawn = any(row["is_drawn"] for row in rows)
    alarm = f"; chance of any false alarm at most {alpha:g}" if is_drawn else ""
    return f"{told or 'nothing tested'}{alarm}; seed {seed}"


def counterexample_text(found: Counterexample | TextCounterexample) -> str:
    """Return its size, its rows, the text that shows it, and the line that runs it again."""
    return _of_texts(found) if isinstance(found, TextCounterexample) else _of_an_instance(found)


def _of_texts(found: TextCounterexample) -> str:
    tokens = " ".join("(any other)" if token is None else repr(token) for token in found.tokens)
    what = "texts that begin with" if found.is_prefix else "the text"
    seen = f"{found.seen:.4g} ({found.lower:.4g} to {found.upper:.4g}) of {found.draws} texts"
    lines = [
        f"  after the prompt {found.prompt!r}",
        f"  {what} {tokens}: expected {found.expected:.4g}, seen {seen}",
        f"  reproduce: {found.reproduce}",
    ]
    return "\n".join(lines)


def _of_an_instance(found: Counterexample) -> str:
    instance, gap = found.instance, found.gap
    if instance is None:
        size = f"prompt {context_text(found.prompt)}, {counted(found.tokens or 0, 'token')}"
        text, rows = text_of(gap.sequence), []
    else:
        size = (
            f"{instance.vocab_size} tokens, draft length {instance.draft_length}, "
            f"{counted(instance.num_paths, 'path')}"
        )
        text, rows = context_text(gap.sequence), instance_lines(instance)
    lines = [
        f"  smallest counterexample: {size}; total variation {short(found.total_variation)}",
        *rows,
        f"  text {text}: expected {short(gap.expected)}, actual {short(gap.actual)}",
        f"  reproduce: {found.reproduce}",
    ]
    return "\n".join(lines)


def instance_lines(instance: Instance) -> list[str]:
    """Return the rows of both models, indented, contexts with equal rows together."""
    return [*_model_lines("target", instance.target), *_model_lines("draft ", instance.draft)]


def _model_lines(name: str, model: ToyModel) -> list[str]:
    import numpy as np

    rows = {
        context: tuple(short(number) for number in row)
        for length, level in enumerate(model.levels)
        for context, row in zip(np.ndindex(*(model.vocab_size,) * length), level, strict=True)
    }
    usual, times = Counter(rows.values()).most_common(1)[0]
    if times == len(rows):
        return [f"  {name}  after every context: ({', '.join(usual)})"]
    # One row after most contexts is told once, at the end.
    told = {context: row for context, row in rows.items() if row != usual or times <= len(rows) // 2}
    shown = list(told.items())[:_SHOWN_CONTEXTS]
    lines = [f"  {name}  after [{context_text(context)}]: ({', '.join(row)})" for context, row in shown]
    if len(told) > len(shown):
        lines.append(f"  {name}  ... {len(told) - len(shown)} more contexts, see the instance file")
    if len(told) < len(rows):
        lines.append(f"  {name}  after every other context: ({', '.join(usual)})")
    return lines
