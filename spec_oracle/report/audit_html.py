"""An audit as one self-contained HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

from spec_oracle.audit import AuditReport, Counterexample, SubjectReport
from spec_oracle.audit.reports import TextCounterexample
from spec_oracle.audit.results import Cover
from spec_oracle.report.audit_text import HEAD, audit_rows, counterexample_text, summary
from spec_oracle.report.drawings import length_chart, text_tree
from spec_oracle.report.table import short
from spec_oracle.report.page import cell, heat, heat_map, page
from spec_oracle.version import tool_version

_SIGNS = {"lossless": "✓", "lossy": "✗", "inconclusive": "?", "declared-lossy": "!"}

_COVERED = {
    Cover.PROVEN: "✓ ",
    Cover.DRAWN: "≈ ",
    Cover.WRONG: "✗ ",
    Cover.NOT_FOLLOWED: "? ",
    Cover.UNTRIED: "– ",
}


def audit_to_html(report: AuditReport) -> str:
    """Return the page: verdicts and headroom, then each subject with its checks, laws and counterexample."""
    command = escape(report.command or "audit(...)")
    made = f"Made on {datetime.now(UTC).date()} by <code>{command}</code>, spec-oracle {tool_version()}."
    rows = zip(audit_rows(report), report.subjects, strict=True)
    table = "\n".join(_row(cells, subject) for cells, subject in rows)
    kinds = ("", "", "", *["number"] * 4, "")
    titles = zip(kinds, HEAD, strict=True)
    head = "".join(f'<th class="{kind}">{escape(title)}</th>' for kind, title in titles)
    return page(
        "spec-oracle audit",
        f'<p class="muted">{made}</p>\n<p><strong>{escape(summary(report))}</strong></p>\n'
        f'<table class="stacked"><thead><tr>{head}</tr></thead><tbody>\n{table}\n</tbody></table>\n'
        + (_matrix(report.subjects) if len(report.subjects) > 1 else "")
        + "\n".join(map(_subject, report.subjects)),
    )


def _matrix(subjects: Sequence[SubjectReport]) -> str:
    """Return the map of all checks of all subjects."""
    names = list(dict.fromkeys(check.name for subject in subjects for check in subject.checks))
    rows = []
    for subject in subjects:
        by_name = {check.name: check for check in subject.checks}
        cells = "".join(heat(by_name.get(name)) for name in names)
        rows.append(f"<tr><th>{escape(subject.subject)}</th>{cells}</tr>")
    legend = "dot: passed, X: failed, ?: inconclusive, blank: not run or does not apply"
    return f'<h3>Checks <span class="muted">{legend}</span></h3>\n{heat_map(("", *names), rows)}\n'


def _row(cells: tuple[str, ...], subject: SubjectReport) -> str:
    name, verdict, evidence, *numbers = cells
    *plain, headroom = zip(HEAD[3:], numbers, strict=True)
    return (
        f"<tr>{cell('', name)}{cell('verdict', f'{_SIGNS[verdict]} {verdict}', verdict)}"
        f"{cell('evidence', evidence)}{''.join(cell(label, text, 'number') for label, text in plain)}"
        f'<td data-label="headroom"><span>{escape(headroom[1])}{_bar(subject)}</span></td></tr>'
    )


def _bar(subject: SubjectReport) -> str:
    """Return a bar: the share of the optimum that the subject reaches."""
    if subject.headroom is None:
        return ""
    share = 100 * min(max(1 - subject.headroom, 0.0), 1.0)
    return f'<div class="bar" title="{share:.1f} % of the optimum"><i style="width: {share:.1f}%"></i></div>'


def _subject(subject: SubjectReport) -> str:
    verdict = subject.verdict.value
    shown = f'<span class="{verdict}">{_SIGNS[verdict]} {verdict}</span>'
    parts = [
        f"<section>\n<h2>{escape(subject.subject)} {shown}</h2>",
        *_facts(subject),
        _checks(subject),
    ]
    if subject.figures:
        parts.append(_laws(subject))
    if subject.coverage:
        parts.append(_coverage(subject.coverage))
    if subject.counterexample is not None:
        parts.append(_counterexample(subject.counterexample))
    if subject.output:
        parts.append(f"<h3>Printed</h3>\n<pre>{escape(subject.output)}</pre>")
    return "\n".join([*parts, "</section>"])


def _facts(subject: SubjectReport) -> Iterator[str]:
    told = {"kind": subject.kind, "version": subject.version, "rule": subject.rule}
    line = ", ".join(f"{name} {value}" for name, value in told.items() if value)
    yield f'<p class="muted">{escape(line)}</p>'
    if subject.error:
        yield f'<p class="failed">{escape(subject.error)}</p>'
    yield from (f"<p>{escape(line)}</p>" for line in (*subject.scope, *subject.notes))


def _checks(subject: SubjectReport) -> str:
    rows = "\n".join(
        f"<tr>{cell('', check.name)}{cell('status', check.status.value, check.status.value)}"
        f"{cell('', check.detail + (f' (on record: {check.known})' if check.known else ''), 'wide')}</tr>"
        for check in subject.checks
    )
    head = "<th>check</th><th>status</th><th>detail</th>"
    return f'<table class="stacked"><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>'


def _laws(subject: SubjectReport) -> str:
    has_rule = any(figures.of_rule for figures in subject.figures)
    marks = f"; marks: as {subject.rule} has it" if has_rule else ""
    charts = "\n".join(
        f"<figure><figcaption>{escape(figures.name)}<br>{short(figures.block_efficiency)}"
        f"{f' of {short(figures.optimum)}' if figures.optimum else ''}</figcaption>"
        f"{length_chart(figures)}</figure>"
        for figures in subject.figures
    )
    told = f"laws as found{marks}; tokens per call, of the optimum"
    title = f'<h3>Accepted tokens <span class="muted">{escape(told)}</span></h3>'
    return f'{title}\n<div class="charts">\n{charts}\n</div>'


def _coverage(coverage: Mapping[str, Mapping[str, Cover]]) -> str:
    """Return a row of values an axis, each with what is known of it by colour and sign."""
    rows = "\n".join(
        f"<dt>{escape(axis.replace('_', ' '))}</dt><dd>"
        + "".join(
            f'<span class="{cover}">{_COVERED[cover]}{escape(value)}</span>'
            for value, cover in values.items()
        )
        + "</dd>"
        for axis, values in coverage.items()
    )
    told = ", ".join(f"{sign}{cover.value.replace('-', ' ')}".strip() for cover, sign in _COVERED.items())
    return f'<h3>Shapes <span class="muted">{escape(told)}</span></h3>\n<dl class="coverage">\n{rows}\n</dl>'


def _counterexample(found: Counterexample | TextCounterexample) -> str:
    told = f"<pre>{escape(counterexample_text(found))}</pre>"
    if isinstance(found, TextCounterexample) or found.instance is None:  # one text, after a prompt
        return f"<h3>Counterexample</h3>\n{told}"
    return (
        f'<h3>Counterexample</h3>\n<figure class="tree">{text_tree(found.instance, found.actual)}<figcaption>'
        "Beginnings of texts, a token a row under the one before it. Upper bar: the mass that the target "
        "gives it; lower bar and arrow: the mass found. What is right is not followed further.</figcaption>"
        f"</figure>\n{told}"
    )
