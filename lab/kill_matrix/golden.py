"""Golden reports: what audits say of a fixed list of subjects, recorded and compared: `make golden`.

    python -m lab.kill_matrix.golden                     audit all, print what differs from the recorded file
    python -m lab.kill_matrix.golden --record            write that file anew
    python -m lab.kill_matrix.golden --compare OLD NEW   print what differs between two such files

The same code gives the same reports on every machine and under any load: seeds are fixed, and budgets are
amounts of work (`lab.kill_matrix.work_clock`). So a change that should change no verdict shows here if it
does, and in what. Exit codes: 0 nothing differs, 1 something does, 3 a mistake in the options.
"""

import json
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from pebble import ProcessExpired, ProcessPool

from lab.kill_matrix.golden_subjects import ROOT, listed
from lab.kill_matrix.work_clock import counted
from spec_oracle.audit import AuditReport
from spec_oracle.audit.results import CheckResult
from spec_oracle.cli import run_command
from spec_oracle.commands.options import OK, Parser, add, cores, jobs
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.errors import EngineError, InvalidInputError, unknown
from spec_oracle.report.table import plural
from spec_oracle.report.terminal import Tell, showing_progress

FILE: Final = ROOT / "tests/lab/kill_matrix/golden.json"
"""Where the reports are recorded."""

SUBJECT: Final = "subject"
"""The line of a report that is of the subject; all others are of checks."""

NOT_INSTALLED: Final = "not installed"
NO_REPORT: Final = "no report"
"""In place of a verdict: a package is missing, or the audit ended with an exception."""

Golden: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By subject, and by check or `SUBJECT`: what is recorded, by name."""

_ROUNDING: Final = 1e-7
"""Numbers below are rounding, of models in float32 too, which differs between processors."""

_OF_THE_MACHINE: Final = (
    (re.compile(r"(?:[\w.~-]*/)+(?=[\w-]+\.py\b)"), ""),
    (re.compile(r"(?<=\.py:)\d+"), "N"),
    (re.compile(r"\b0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b\d(?:\.\d+)?e-(?:0[89]|[1-9]\d|\d{3})\b|\b0\.0+e\+00\b"), "0"),
    (re.compile(r"\b[\d,.]+(?= (?:rows )?a second\b)"), "N"),
    (re.compile(r"(?<=about )[\d,.]+(?= s\b)"), "N"),
    (re.compile(r"(?<=--budget )[\d,.]+"), "N"),
)
"""What is no part of a finding: folders, lines, addresses, rounding, rates and times."""


def audited(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Audit one subject in this process, and return what is recorded of it."""
    with warnings.catch_warnings(), counted() as clock:
        warnings.simplefilter("ignore")  # those of code under test: wherever it runs, they end nothing
        seed_all(0)  # some code draws from global generators
        try:
            return recorded(listed()[name](clock))
        except EngineError as error:
            return {SUBJECT: {"verdict": NOT_INSTALLED, "reason": first_sentence(str(error))}}
        except Exception as error:  # noqa: BLE001  # one report is lost to it, not the others
            return _lost(error)


def _lost(error: BaseException) -> Mapping[str, Mapping[str, Any]]:
    reason = first_sentence(f"{type(error).__name__}: {error}")
    return {SUBJECT: {"verdict": NO_REPORT, "reason": reason}}


def recorded(report: AuditReport) -> Mapping[str, Mapping[str, Any]]:
    """Return what is recorded of a report on one subject: a line for the subject, and one for each check."""
    (subject,) = report.subjects
    own = {
        "verdict": subject.verdict.value,
        "evidence": subject.evidence.value,
        "exit_code": report.exit_code,
        "total_variation": _rounded(subject.total_variation),
        "block_efficiency": _rounded(subject.block_efficiency),
    }
    return {SUBJECT: own, **{check.name: _of_check(check) for check in subject.checks}}


def _of_check(check: CheckResult) -> Mapping[str, str]:
    return {
        "status": check.status.value,
        "how": check.word.value,
        "detail": first_sentence(check.detail),
    }


def _rounded(number: float | None) -> float | None:
    """Return six digits of a number, 0 for rounding."""
    if number is None:
        return None
    return float(f"{number:.6g}") if abs(number) > _ROUNDING else 0.0


def first_sentence(detail: str) -> str:
    """Return the first sentence of a detail, without what is of the machine.

    >>> first_sentence("raised KeyError (at /home/me/engine.py:12); sampled instead")
    'raised KeyError (at engine.py:N)'
    """
    for pattern, replacement in _OF_THE_MACHINE:
        detail = pattern.sub(replacement, detail)
    return re.split(r"[.;]\s", detail, maxsplit=1)[0]


def reports(names: Sequence[str], number_of_jobs: int, progress: Tell) -> Golden:
    """Audit subjects, each in a process of its own: none can change what is found of another."""
    found: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    total = 0.0
    with ProcessPool(number_of_jobs, max_tasks=1, context=_context()) as pool:
        futures = {name: pool.schedule(_timed, args=(name,)) for name in names}
        for name, future in futures.items():
            try:
                found[name], seconds = future.result()
            except ProcessExpired as error:
                found[name], seconds = _lost(error), 0.0
            total += seconds
            told = f"{name}: {found[name][SUBJECT]['verdict']}, {seconds:.1f} s of {total:.0f} s on one core"
            progress(told, len(found), len(names))
    return found


def _timed(name: str) -> tuple[Mapping[str, Mapping[str, Any]], float]:
    """Audit one subject; return also the processor time of it, in seconds."""
    started = time.process_time()
    return audited(name), time.process_time() - started


def _context() -> Any:
    """Return how processes are started: from a server that has imported everything, where there is one."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([listed.__module__])
    return context


class Difference(NamedTuple):
    """What two files say of a ``field`` of a ``line`` of a subject; None where one of them has none."""

    subject: str
    line: str
    field: str
    old: Any
    new: Any

    def __str__(self) -> str:
        """Return what a person reads."""
        where = ", ".join(part for part in (self.subject, self.line, self.field) if part)
        return f"{where}:\n  - {_shown(self.old)}\n  + {_shown(self.new)}"


def _shown(value: Any) -> str:
    return "(none)" if value is None else str(value)


def differences(old: Golden, new: Golden) -> Iterator[Difference]:
    """Yield what differs, by subject; a subject or check that only one of them has is one difference."""
    for subject in sorted({*old, *new}):
        if subject not in old or subject not in new:
            yield Difference(subject, "", "", _word(subject, old), _word(subject, new))
            continue
        for line in sorted({*old[subject], *new[subject]}):
            before, after = old[subject].get(line), new[subject].get(line)
            if before is None or after is None:
                yield Difference(subject, line, "", before, after)
                continue
            for field in sorted({*before, *after}):
                if before.get(field) != after.get(field):
                    yield Difference(subject, line, field, before.get(field), after.get(field))


def _word(subject: str, golden: Golden) -> str | None:
    return golden[subject][SUBJECT]["verdict"] if subject in golden else None


def to_text(golden: Golden) -> str:
    """Return the reports as JSON, sorted, a line for each subject and each of its checks."""
    subjects = []
    for subject, lines in sorted(golden.items()):
        inside = ",\n".join(
            f"  {json.dumps(line)}: {json.dumps(values, ensure_ascii=False)}"
            for line, values in sorted(lines.items(), key=lambda item: (item[0] != SUBJECT, item[0]))
        )
        subjects.append(f" {json.dumps(subject)}: {{\n{inside}\n }}")
    return "{\n" + ",\n".join(subjects) + "\n}\n"


def read(file: Path) -> Golden:
    """Return the reports of a file; raises `InvalidInputError` for one that holds none."""
    try:
        found: Golden = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{file}: {error}; `--record` and `--output` write such files") from None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit the subjects, or compare two files; return 1 if anything differs."""
    parser = Parser(prog="python -m lab.kill_matrix.golden", description="Recorded reports, compared.")
    parser.add_argument("names", nargs="*", metavar="SUBJECT", help='such as "rule token"; default: all')
    parser.add_argument("--record", action="store_true", help=f"write {FILE.relative_to(ROOT)}")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write what was found here, too")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="audit nothing, compare two files"
    )
    add(parser, jobs("subjects to audit"))
    parser.set_defaults(run=_run)
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    return run_command(lambda _: parser, given or ["--jobs", str(cores())])


def _run(options: Any) -> int:
    if options.compare:
        return _told(differences(*map(read, options.compare)))
    known = listed()
    for name in options.names:
        if name not in known:
            raise InvalidInputError(f"subject: {unknown(name, known, 'subject')}")
    names = options.names or [*known]
    with showing_progress() as tell:
        found = reports(names, options.jobs, tell)
    if options.output:
        options.output.write_text(to_text(found), encoding="utf-8")
    before = read(FILE) if FILE.exists() else {}
    if options.record:
        FILE.write_text(to_text({**before, **found} if options.names else found), encoding="utf-8")
        before = found
    elif options.names:
        before = {name: before[name] for name in names if name in before}
    return max(_told(differences(before, found)), _told_missing(found))


def _told(differing: Iterable[Difference]) -> int:
    """Print differences, and how many there are; return 1 if there are any."""
    listed = [*differing]
    for one in listed:
        print(one)
    subjects = plural(len({one.subject for one in listed}), "subject")
    print(f"{plural(len(listed), 'difference')}, in {subjects}" if listed else "no difference")
    return 1 if listed else OK


def _told_missing(found: Golden) -> int:
    """Print which subjects have no report, and why; return 1 if there are any."""
    without = {
        name: lines[SUBJECT]
        for name, lines in found.items()
        if lines[SUBJECT]["verdict"] in (NOT_INSTALLED, NO_REPORT)
    }
    for name, line in without.items():
        print(f"{name}: {line['verdict']}: {line['reason']}")
    return 1 if without else OK


if __name__ == "__main__":
    sys.exit(main())
