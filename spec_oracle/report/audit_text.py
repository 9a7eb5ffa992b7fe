"""An audit on a terminal: verdict, failures, what to do, what passed, and the table of figures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from spec_oracle.audit.registry import Listed
from spec_oracle.audit.reports import AuditReport, Counterexample, SubjectReport
from spec_oracle.audit.results import DECLARED, Cause, CheckResult, Status, TextCounterexample
from spec_oracle.report import reading
from spec_oracle.report.table import percent, plural, short, text_table
from spec_oracle.report.what_to_do import command_for, next_steps
from spec_oracle.toy import Instance, ToyModel, context_text

HEAD = ("subject", "verdict", "open", "evidence", "TV", "detects TV", "tokens/call", "optimum", "headroom")
"""The columns of the table; those without an entry are left out."""

NUMBERS = HEAD[4:]
"""Those of numbers."""

_LONG = 240
"""Characters of a finding from which on only its first part is shown."""

_OUT_OF_DATE = "; it is on record ({}): remove it from expected-failures"
_SHOWN_CONTEXTS = 5
_SINCE = {
    "joint failed": "joint failed",
    DECLARED: DECLARED,
    "contract broken": "the code does not keep its contract",
    "a call did not end": "a call did not end",
}


def audit_to_text(report: AuditReport, *, verbose: bool = False) -> str:
    """Return the report for a terminal; of several subjects, only those with open checks have a section.

    ``verbose`` shows every subject, and with it every check, scope, sizes, rates and samples.
    """
    is_short = len(report.subjects) > 1 and not verbose
    sections = [
        subject_text(subject, report.command, verbose=verbose)
        for subject in reading.first_what_is_open(report)
        if not (is_short and reading.is_plainly_lossless(subject))
    ]
    head, rows = audit_table(report)
    table = text_table(head, rows, right=[n for n, title in enumerate(head) if title in NUMBERS])
    kept: dict[str, list[str]] = {}
    for subject in report.subjects:
        kept.setdefault(subject.as_on, []).append(subject.subject)
    reused = [f"as on {day}: {', '.join(names)}" for day, names in kept.items() if day]
    closing = closing_line(report) + (f"; {alarm_text(report.alpha)}" if verbose else "")
    return "\n\n".join([*sections, table, *reused, closing]) + "\n"


def subject_text(subject: SubjectReport, command: str = "", *, verbose: bool = False) -> str:
    """Return what a person reads of one subject, in the order of reading."""
    lines = [reading.headline(subject)]
    if subject.error:
        lines.append(f"  {subject.error}")
    lines += [f"  {line}" for line in open_lines(subject, command)]
    lines += [f"  do: {step}" for step in next_steps(subject, command)]
    others = [check for check in subject.checks if check not in reading.open_checks(subject)]
    if subject.error:  # what keeps a subject from being audited is said once
        others = [check for check in others if check.detail != subject.error]
    if not verbose:
        passed = reading.passed_line(others)
        lines += [f"  ✓ {passed}"] if passed else []
        others = [check for check in others if not reading.is_only_named(check)]
    lines += [f"  {line}" for line in check_lines(others, verbose=verbose)]
    lines += [f"  note: {note}" for note in subject.remarks.notes]
    if verbose:
        for check in reading.open_checks(subject):
            lines += [f"  {check.name}: {line}" for line in (check.detail, *statistics(check))]
        lines += [f"  {axis.replace('_', ' ')}: {values}" for axis, values in coverage_lines(subject)]
    lines += [f"  printed: {line}" for line in subject.code.output.splitlines()]
    return "\n".join(lines)


def open_lines(subject: SubjectReport, command: str = "") -> list[str]:
    """Return the open checks, a line each; below a failure its evidence, place and command."""
    checks = reading.open_checks(subject)
    grouped: dict[tuple[Status, str], list[CheckResult]] = {}
    for check in checks:
        grouped.setdefault((check.status, check.detail), []).append(check)
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for (status, _), (check, *others) in grouped.items():
        word = {Status.INCONCLUSIVE: "not decided: ", Status.NOT_RUN: "not run: "}.get(status, "")
        names = reading.names_of([one.name for one in (check, *others)], subject)
        lines.append(f"{mark(check)} {names:<{width}}  {word}{first_clause(check)}")
        lines += [f"    {line}" for line in failure_lines(subject, check, command)]
    return lines


def failure_lines(subject: SubjectReport, check: CheckResult, command: str = "") -> list[str]:
    """Return what shows a failure, the place in the user's code, and the command that shows it again."""
    if check.status is not Status.FAILED:
        return []
    found = subject.counterexample
    shown, again = list[str](), again_lines(check)
    if found is not None and check is _shown_by(subject):
        shown, again = counterexample_lines(found)
    if not again and subject.kind != "server":
        again = [f"reproduce: {command_for(subject, command, ['--check', check.name])}"]
    place = subject.code.place if "(at " not in check.detail else ""
    return [*shown[:1], *([f"in: {place}"] if place else []), *again, *shown[1:]]


def _shown_by(subject: SubjectReport) -> CheckResult | None:
    """Return the check that the counterexample is of."""
    failed = [check for check in subject.checks if check.status is Status.FAILED]
    of_one = [check for check in failed if check.name == "joint" or check.shown.completion is not None]
    return next(iter([*of_one, *failed]), None)


def check_lines(checks: Iterable[CheckResult], *, verbose: bool = False) -> list[str]:
    """Return a line a check: mark, name, how it knows, what it found; what was left out once a reason."""
    left_out: dict[str, list[str]] = {}
    listed: list[CheckResult] = []
    for check in checks:
        if check.status is Status.SKIPPED:
            left_out.setdefault(check.detail, []).append(check.name)
        else:
            listed.append(check)
    width = max((len(check.name) for check in listed), default=0)
    lines = []
    for check in listed:
        found = clause(check, verbose=verbose)
        lines.append(f"{mark(check)} {check.name:<{width}}  {check.word.value:<11}  {found}")
        lines += [f"{'':<{width + 17}}{line}" for line in statistics(check) if verbose]
    for reason, each in left_out.items():
        names = ", ".join(each)
        is_since = reason in _SINCE
        lines.append(
            f"– not run, since {_SINCE[reason]}: {names}" if is_since else f"– left out: {names} ({reason})"
        )
    return lines


def mark(check: CheckResult) -> str:
    """Return how a check ended, in one character; a check with a record has a character of its own."""
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


def first_clause(check: CheckResult) -> str:
    """Return the finding of an open check in a sentence: without what else it found, if that is much."""
    if check.known:
        return clause(check)
    if check.status is not Status.FAILED:
        numbered, should_do, _ = check.detail.partition("should do)")
        return numbered + should_do if should_do else check.detail.partition("; ")[0]
    first, *others = check.detail.split("; ")
    if len(check.detail) <= _LONG or not others or check.cause is Cause.BROKEN_CONTRACT:
        return check.detail  # of a broken contract with the form of the call, however long
    return f"{first} (and {plural(len(others), 'more such finding')}: -v)"


def again_lines(check: CheckResult) -> list[str]:
    """Return what a failed check finds on the smallest inputs that show it, and how to run it on them."""
    again = check.shown.inputs
    if again is None:
        return []
    says = f": {again.says.removesuffix(f' at {again.size}')}" if again.says not in check.detail else ""
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
    """Yield each axis of the shapes with its values, grouped by how much is known of them."""
    for axis, values in subject.remarks.coverage.items():
        by_cover: dict[str, list[str]] = {}
        for value, cover in values.items():
            by_cover.setdefault(cover.value.replace("-", " "), []).append(value)
        yield axis, "; ".join(f"{cover} {', '.join(values)}" for cover, values in by_cover.items())


def audit_table(report: AuditReport) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and the rows of the table, without empty columns."""
    return with_entries(HEAD, [audit_cells(subject) for subject in report.subjects])


def with_entries(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return titles and rows without columns whose every entry is empty or a dash."""
    kept = [n for n in range(len(head)) if n < 2 or any(row[n] not in ("", "-") for row in rows)]
    return tuple(head[n] for n in kept), [tuple(row[n] for n in kept) for row in rows]


def audit_cells(subject: SubjectReport) -> tuple[str, ...]:
    """Return the row of a subject in the table, an entry for each title of `HEAD`."""
    detects, reach = short(subject.smallest_detectable_tv, 2), subject.reach
    if reach.words:
        pair = (short(found[1], 2) for found in (reach.exact, reach.sampled) if found)
        detects = ", ".join(pair) + " a token" * reach.by_token
    return (
        _title(subject),
        subject.verdict.value,
        reading.first_open_words(subject),
        reading.evidence_word(subject),
        reading.total_variation_text(subject),
        detects,
        short(subject.block_efficiency),
        short(subject.optimum),
        percent(subject.headroom),
    )


def _title(subject: SubjectReport) -> str:
    is_named = subject.code.version is None or "@" in subject.subject
    return subject.subject if is_named else f"{subject.subject} {subject.code.version}"


def closing_line(report: AuditReport) -> str:
    """Return how many subjects have which verdict, which checks are open, exit code, time and seed."""
    parts = [verdicts_text(subject.verdict.value for subject in report.subjects)]
    errors = sum(bool(subject.error) for subject in report.subjects)
    checks = [check for subject in report.subjects if not subject.error for check in subject.checks]
    for word, is_so in (
        ("failed", lambda check: check.status is Status.FAILED),
        ("not decided", lambda check: check.status is Status.INCONCLUSIVE),
        ("not run", lambda check: check.status is Status.NOT_RUN),
        ("no longer failing", lambda check: check.known),
    ):
        if found := [check.name for check in checks if not check.is_settled and is_so(check)]:
            names = f" ({', '.join(dict.fromkeys(found))})" if len(found) < len(checks) else ""
            parts.append(f"{plural(len(found), 'check')} {word}{names}")
    parts += [f"{errors} not audited"] if errors else []
    took = f"{seconds_text(report.seconds)}, " if report.seconds else ""
    return f"{', '.join(parts)}: exit code {report.exit_code}; {took}seed {report.seed}"


def verdicts_text(verdicts: Iterable[str]) -> str:
    """Return how many verdicts of each kind there are."""
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items()) or "nothing tested"


def alarm_text(alpha: float) -> str:
    """Return what the false-alarm rate of a run means."""
    return f"chance of any false alarm at most {alpha:g}"


def counterexample_lines(found: Counterexample | TextCounterexample) -> tuple[list[str], list[str]]:
    """Return the tokens, the size and the rows of a counterexample; and the command that runs it again."""
    if isinstance(found, TextCounterexample):
        tokens = " ".join("(any other)" if token is None else repr(token) for token in found.tokens)
        what = "completions that begin with" if found.is_prefix else "the completion"
        seen = f"{found.seen:.4g} ({found.lower:.4g} to {found.upper:.4g}) of {found.draws:,} completions"
        shown = [
            f"{what} {tokens}: {found.expected:.4g} expected, {seen} found",
            f"counterexample: after the prompt {found.prompt!r}",
        ]
    else:
        gap, total = found.gap, short(found.total_variation)
        expected, actual = (short(one, gap.digits) for one in (gap.expected, gap.actual))
        probability = f"probability {expected} expected, {actual} found"
        seen = "sampled instance" if found.samples else "smallest counterexample"
        of_samples = f" in {found.samples:,} samples, chance included" if found.samples else ""
        shown = [
            f"tokens {_tokens(gap.sequence)}: {probability}",
            f"{seen}: {_size(found)}; total variation {total}{of_samples}",
            *([] if found.instance is None else instance_lines(found.instance)),
        ]
    lost = getattr(found, "not_saved", "")
    return shown, [f"reproduce: {found.reproduce}", *([f"not saved: {lost}"] if lost else [])]


def _size(found: Counterexample) -> str:
    if found.instance is None:
        return f"prompt {context_text(found.prompt)}, {plural(found.tokens or 0, 'token')}"
    instance = found.instance
    sizes = f"{instance.vocab_size} tokens, draft length {instance.draft_length}"
    return f"{sizes}, {plural(instance.num_paths, 'path')}"


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
    """Return the subjects that have a name, a table a group, and how to install a missing one."""
    parts = [
        text_table(
            (group, "verifies", "what it is"), [(one.name, one.verifies, one.about) for one in members]
        )
        for group, members in groupby(listed, lambda one: one.group)
    ]
    hint = "`spec-oracle audit NAME` says how to install an engine that is missing; your code: module:object"
    return "\n\n".join([*parts, hint]) + "\n"
