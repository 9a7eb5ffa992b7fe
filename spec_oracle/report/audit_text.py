"""An audit for people: a table of verdicts, then for each subject what is wrong and how each check knows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import groupby

import numpy as np

from spec_oracle.audit.listing import Listed
from spec_oracle.audit.reports import AuditReport, Counterexample, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import DECLARED, CheckResult, How, Status, TextCounterexample
from spec_oracle.audit.sampler.unexecuted_lines import NOT_JUDGED
from spec_oracle.report.table import markdown_table, percent, plural, short, text_table
from spec_oracle.toy import Instance, ToyModel, context_text
from spec_oracle.version import tool_version

HEAD = ("subject", "verdict", "evidence", "TV", "detects TV", "tokens/call", "optimum", "headroom")

_OUT_OF_DATE = "; it is on record ({}): remove it from expected-failures"
_SHOWN_CONTEXTS = 13
_SINCE = {
    "joint failed": "joint failed",
    DECLARED: DECLARED,
    "contract broken": "the code does not keep its contract",
    "a call did not end": "a call did not end",
}


def audit_to_text(report: AuditReport, *, verbose: bool = False) -> str:
    """Return the report for a terminal; with several subjects, the checks only of those with anything open.

    ``verbose`` shows every subject, and with it scope, sizes, rates and samples.
    """
    table = text_table(HEAD, audit_rows(report), right=range(3, len(HEAD)))
    sections = [
        subject_text(subject, verbose=verbose)
        for subject in report.subjects
        if verbose or len(report.subjects) == 1 or not _is_plainly_lossless(subject)
    ]
    kept: dict[str, list[str]] = {}
    for subject in report.subjects:
        kept.setdefault(subject.as_on, []).append(subject.subject)
    sections += [f"as on {day}: {', '.join(names)}" for day, names in kept.items() if day]
    closing = closing_line(report) + (f"; {_alarm(report.alpha)}" if verbose else "")
    return "\n\n".join([table, *sections, closing]) + "\n"


def _is_plainly_lossless(subject: SubjectReport) -> bool:
    is_settled = not subject.error and all(check.is_settled for check in subject.checks)
    is_settled &= not any(note.startswith(NOT_JUDGED) for note in subject.remarks.notes)
    return is_settled and subject.verdict is SubjectVerdict.LOSSLESS


def subject_text(subject: SubjectReport, *, verbose: bool = False) -> str:
    """Return the counterexample, where there is one, a line a check, and what the subject printed."""
    rule = f"; rule {rule_of(subject)}" if subject.rule else ""
    proviso = f", {subject.remarks.proviso}" if subject.remarks.proviso else ""
    lines = [f"{subject.subject}: {subject.verdict.value}{proviso}{rule}"]
    if subject.reach.sentence:
        lines.append(f"  {subject.reach.sentence}")
    if subject.error:
        return "\n".join([*lines, f"  could not be audited: {subject.error}"])
    if subject.counterexample is not None:
        lines.append(counterexample_text(subject.counterexample))
    lines += [f"  {line}" for line in check_lines(subject.checks, verbose=verbose)]
    lines += [f"  note: {note}" for note in subject.remarks.notes]
    if verbose:
        lines += [f"  {axis.replace('_', ' ')}: {values}" for axis, values in coverage_lines(subject)]
    lines += [f"  printed: {line}" for line in subject.code.output.splitlines()]
    return "\n".join(lines)


def check_lines(checks: Iterable[CheckResult], *, verbose: bool = False) -> list[str]:
    """Return a line a check: mark, name, how it knows, what it found; what was not tried once a reason."""
    checks = list(checks)
    groups: dict[tuple[str, str], list[CheckResult]] = {}
    untried = Counter(check.detail for check in checks if _is_untried(check))
    for check in checks:
        is_alone = check.status not in (Status.NOT_RUN, Status.SKIPPED) and (
            not _is_untried(check) or untried[check.detail] == 1
        )
        groups.setdefault((check.name, "") if is_alone else (check.status, check.detail), []).append(check)
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for (_, reason), group in sorted(groups.items(), key=lambda item: bool(item[0][1])):
        names, check = ", ".join(check.name for check in group), group[0]
        found, sign = clause(check, verbose=verbose), mark(check)
        how = "left out" if check.status is Status.SKIPPED else check.word.value
        if reason in _SINCE:
            lines.append(f"{sign} not run, since {_SINCE[reason]}: {names}")
        elif len(group) > 1:
            what = "every check" if len(group) == len(checks) else names
            lines.append(f"{sign} {how}: {what} ({reason})")
        else:
            lines.append(f"{sign} {names:<{width}}  {how:<11}  {found}")
            lines += [f"    {line}" for line in again_lines(check)]
            if verbose:
                lines += [f"{'':<{width + 17}}{line}" for line in statistics(check)]
    return lines


def _is_untried(check: CheckResult) -> bool:
    """Whether a check that applies found nothing: several may have the same reason."""
    return check.status is Status.INCONCLUSIVE and check.word is How.NOT_TRIED


def mark(check: CheckResult) -> str:
    """Return how a check ended, in one character; what is known, rightly or not, has its own."""
    if check.known:
        return "!"
    signs = {Status.PASSED: "✓", Status.FAILED: "✗"}
    return signs.get(check.status, "–" if check.is_settled else "?")


def clause(check: CheckResult, *, verbose: bool = True) -> str:
    """Return what a check found: of one that passed up to the first semicolon, statistics come after it."""
    is_short = check.status is Status.PASSED and not verbose
    detail = check.detail.partition("; ")[0] if is_short else check.detail
    if not check.known:
        return detail
    if check.status is Status.FAILED:
        return f"{detail} (expected: {check.known})"
    return ("passes now" if check.status is Status.PASSED else detail) + _OUT_OF_DATE.format(check.known)


def again_lines(check: CheckResult) -> list[str]:
    """Return what a failed check finds on the smallest inputs that show it, and how to run it on them."""
    again = check.shown.inputs
    if again is None:
        return []
    says = f": {again.says}" if again.says != check.detail else ""
    shown = [f"smallest inputs: {again.size}{says}"] if again.size else []
    lost = [f"not saved: {again.not_saved}"] if again.not_saved else []
    return [*shown, f"reproduce: {again.reproduce}", *lost]


def statistics(check: CheckResult) -> Iterator[str]:
    """Yield what a check covers, and what it cost: rate, samples, time."""
    yield from check.remarks.scope
    rate = check.measured.alpha and f"false-alarm rate {check.measured.alpha:.2g}"
    drawn = check.measured.draws and f"{check.measured.draws:,} samples"
    if numbers := [one for one in (rate, drawn, check.seconds and seconds_text(check.seconds)) if one]:
        yield ", ".join(numbers)


def seconds_text(seconds: float) -> str:
    """Return a time for people."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def durations_text(report: AuditReport, most: int) -> str:
    """Return the checks that took longest, at most so many, one a line."""
    listed = [
        (check.seconds, f"{subject.subject}: {check.name}")
        for subject in report.subjects
        for check in subject.checks
    ]
    slowest = sorted(listed, reverse=True)[:most]
    return "\n".join(["slowest checks:", *(f"  {seconds:7.1f} s  {name}" for seconds, name in slowest)])


def coverage_lines(subject: SubjectReport) -> Iterator[tuple[str, str]]:
    """Yield each axis of the shapes with its values, those of which equally much is known together."""
    for axis, values in subject.remarks.coverage.items():
        by_cover: dict[str, list[str]] = {}
        for value, cover in values.items():
            by_cover.setdefault(cover.value.replace("-", " "), []).append(value)
        yield axis, "; ".join(f"{cover} {', '.join(values)}" for cover, values in by_cover.items())


def audit_rows(report: AuditReport) -> list[tuple[str, ...]]:
    """Return the cells of the table, one row a subject."""
    return [
        (_title(subject), subject.verdict.value, evidence_text(subject), *_figures(subject))
        for subject in report.subjects
    ]


def evidence_text(subject: SubjectReport) -> str:
    """Return the kind of evidence; of engines how far it goes."""
    return subject.reach.words or subject.evidence.value


def _figures(subject: SubjectReport) -> tuple[str, ...]:
    tokens, optimum, headroom = subject.block_efficiency, subject.optimum, subject.headroom
    detects, reach = short(subject.smallest_detectable_tv, 2), subject.reach
    if reach.words:
        pair = (short(found[1], 2) for found in (reach.exact, reach.sampled) if found)
        detects = ", ".join(pair) + " a token" * bool(reach.sampled)
    variations = (short(subject.total_variation, 2), detects)
    return *variations, short(tokens), short(optimum), percent(headroom)


def _title(subject: SubjectReport) -> str:
    is_named = subject.code.version is None or "@" in subject.subject
    return subject.subject if is_named else f"{subject.subject} {subject.code.version}"


def rule_of(subject: SubjectReport) -> str:
    """Return the rule that a subject declares to be, or was found to be; "" where neither is known."""
    return f"{subject.rule or ''}{' (identified)' if subject.rule_identified else ''}"


def closing_line(report: AuditReport) -> str:
    """Return how many subjects have which verdict, which checks are open, exit code, time and seed."""
    parts = [_verdicts(subject.verdict.value for subject in report.subjects)]
    errors = sum(bool(subject.error) for subject in report.subjects)
    checks = [check for subject in report.subjects if not subject.error for check in subject.checks]
    for word, is_so in (
        ("failed", lambda check: check.status is Status.FAILED),
        ("inconclusive", lambda check: check.status is Status.INCONCLUSIVE),
        ("not run", lambda check: check.status is Status.NOT_RUN),
        ("no longer failing", lambda check: check.known),
    ):
        if found := [check.name for check in checks if not check.is_settled and is_so(check)]:
            names = f" ({', '.join(dict.fromkeys(found))})" if len(found) < len(checks) else ""
            parts.append(f"{plural(len(found), 'check')} {word}{names}")
    parts += [f"{errors} not audited"] if errors else []
    took = f"{seconds_text(report.seconds)}, " if report.seconds else ""
    return f"{', '.join(parts)}: exit code {report.exit_code}; {took}seed {report.seed}"


def _verdicts(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items()) or "nothing tested"


def _alarm(alpha: float) -> str:
    return f"chance of any false alarm at most {alpha:g}"


def counterexample_text(found: Counterexample | TextCounterexample) -> str:
    """Return its size, its rows, the tokens that show it, and the line that runs it again."""
    if isinstance(found, TextCounterexample):
        tokens = " ".join("(any other)" if token is None else repr(token) for token in found.tokens)
        what = "completions that begin with" if found.is_prefix else "the completion"
        seen = f"{found.seen:.4g} ({found.lower:.4g} to {found.upper:.4g}) of {found.draws:,} completions"
        head = f"counterexample: after the prompt {found.prompt!r}"
        shown = f"{what} {tokens}: {found.expected:.4g} expected, {seen} found"
    else:
        size, total = _size(found), short(found.total_variation)
        head = "\n  ".join([f"smallest counterexample: {size}; total variation {total}", *_rows(found)])
        probability = f"probability {short(found.gap.expected)} expected, {short(found.gap.actual)} found"
        shown = f"tokens {_tokens(found.gap.sequence)}: {probability}"
    lost = getattr(found, "not_saved", "")
    saved = f"\n  not saved: {lost}" if lost else ""
    return f"  {head}\n  {shown}\n  reproduce: {found.reproduce}{saved}"


def _size(found: Counterexample) -> str:
    if found.instance is None:
        return f"prompt {context_text(found.prompt)}, {plural(found.tokens or 0, 'token')}"
    instance = found.instance
    sizes = f"{instance.vocab_size} tokens, draft length {instance.draft_length}"
    return f"{sizes}, {plural(instance.num_paths, 'path')}"


def _rows(found: Counterexample) -> list[str]:
    return [] if found.instance is None else instance_lines(found.instance)


def _tokens(sequence: Sequence[object]) -> str:
    """Return the tokens of a completion, or of completions that follow each other."""
    if sequence and isinstance(sequence[0], tuple):
        return " and then ".join(_tokens(one) for one in sequence if isinstance(one, tuple))
    return ",".join(map(str, sequence)) or "(none)"


def instance_lines(instance: Instance) -> list[str]:
    """Return the next-token distributions of both models, contexts with equal ones together."""
    return [*_model_lines("target", instance.target), *_model_lines("draft ", instance.draft)]


def _model_lines(name: str, model: ToyModel) -> list[str]:
    rows = {
        context: f"({', '.join(short(number) for number in row)})"
        for length, level in enumerate(model.levels)
        for context, row in zip(np.ndindex(*(model.vocab_size,) * length), level, strict=True)
    }
    usual, times = Counter(rows.values()).most_common(1)[0]
    if times == len(rows):
        return [f"{name}  after every context: {usual}"]
    # A distribution after most contexts is shown once, at the end.
    others = {context: row for context, row in rows.items() if row != usual or times <= len(rows) // 2}
    shown = list(others.items())[:_SHOWN_CONTEXTS]
    lines = [f"{name}  after [{context_text(context)}]: {row}" for context, row in shown]
    if len(others) > len(shown):
        lines.append(f"{name}  ... {len(others) - len(shown)} more contexts, see the instance file")
    if len(others) < len(rows):
        lines.append(f"{name}  after every other context: {usual}")
    return lines


def list_to_text(listed: Iterable[Listed]) -> str:
    """Return what can be audited by name: a table a group, and how to get what is not here."""
    parts = [
        text_table(
            (group, "verifies", "what it is"), [(one.name, one.verifies, one.about) for one in members]
        )
        for group, members in groupby(listed, lambda one: one.group)
    ]
    hint = "`spec-oracle audit NAME` says how to install an engine that is missing; your code: module:object"
    return "\n\n".join([*parts, hint]) + "\n"


def audit_to_markdown(report: AuditReport) -> str:
    """Return the report as Markdown: for a CI step summary, or to be kept as a page."""
    return markdown_page(page_rows(report), report.command or "audit(...)", report.alpha, report.seed)


@dataclass(frozen=True)
class PageRow:
    """What a page says of one subject, as JSON can hold it; ``is_drawn`` if it was sampled."""

    verdict: str
    is_drawn: bool
    cells: list[str]
    remarks: list[str]
    counterexample: str | None


def page_rows(report: AuditReport) -> list[PageRow]:
    """Return what a page needs, subject by subject."""
    return [
        PageRow(
            subject.verdict.value,
            any(check.measured.alpha > 0 for check in subject.checks),
            [*row, rule_of(subject)],
            [
                *check_lines(subject.checks),
                *subject.remarks.notes,
                *subject.remarks.scope,
                *(f"printed: {line}" for line in subject.code.output.splitlines()),
            ],
            None if subject.counterexample is None else counterexample_text(subject.counterexample),
        )
        for row, subject in zip(audit_rows(report), report.subjects, strict=True)
    ]


def markdown_page(rows: Sequence[PageRow], command: str, alpha: float, seed: int) -> str:
    """Return the page that ``command`` makes of the `page_rows` of subjects; remarks are folded below."""
    made = f"Made on {datetime.now(UTC).date()} by `{command}`, spec-oracle {tool_version()}."
    alarm = f"; {_alarm(alpha)}" if any(row.is_drawn for row in rows) else ""
    counts = f"{_verdicts(row.verdict for row in rows)}{alarm}; seed {seed}"
    table = markdown_table((*HEAD, "rule"), [row.cells for row in rows])
    return "\n\n".join(["# spec-oracle audit", made, counts, table, *map(_remarks, rows)]) + "\n"


def _remarks(row: PageRow) -> str:
    """Return what is known of one subject: the counterexample first, or, where there is none, folded."""
    title = escape(f"{row.cells[0]}: {row.verdict}")
    items = "\n".join(f"<li>{escape(line)}</li>" for line in row.remarks)
    if row.counterexample:
        return f"## {title}\n\n```\n{row.counterexample}\n```\n\n<ul>\n{items}\n</ul>"
    return f"<details><summary>{title}</summary><ul>\n{items}\n</ul></details>"
