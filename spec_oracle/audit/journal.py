"""The journal of a subject: what its process found so far, and the report on what it left behind.

A process writes the subject into its folder once it is loaded, then the result of each check, and what the
code under test prints.
"""

import pickle
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from pebble import ProcessExpired

from spec_oracle.audit.checks import CHECKS, IN_TURN
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import SubjectReport
from spec_oracle.audit.results import UNTRIED, CheckResult, Remarks, Status
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.suite import SUITES
from spec_oracle.audit.verdict import report_on
from spec_oracle.errors import InvalidInputError

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the journals, for the lines of progress."""

_MORE: Final = 4
"""So many times the time limit is the next one to try, where it ended a subject."""

_SHOWN_OUTPUT: Final = 2000
"""Characters of what the code under test printed that a report shows, the last ones."""

_CRASHES = {getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE")} - {0}


@dataclass(frozen=True)
class LostSubject:
    """What is left of a subject whose process is gone."""

    name: str
    kind: str = "unknown"
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    place: str = ""
    call_form: ClassVar[str] = ""
    carries_state: ClassVar[bool] = False
    drafts: ClassVar[None] = None
    is_rerunnable: ClassVar[bool] = True

    def plain_call(self, seed: int) -> None:
        """Call nothing: the code is gone."""


Entry: TypeAlias = CheckResult | LostSubject
"""What a journal holds."""


def lost_subject(subject: Subject) -> LostSubject:
    """Return what the journal keeps of a subject."""
    facts = replace(subject.facts, rule_at=None)
    return LostSubject(subject.name, subject.kind, facts, subject.num_paths, subject.place)


def read_journal(folder: Path) -> list[Entry]:
    """Return what a process has entered so far: the subject, and the results of its checks."""
    entries: list[Entry] = []
    try:
        with (folder / "journal").open("rb") as journal:
            while True:
                entries.append(pickle.load(journal))  # noqa: S301  # our own, in a folder of our own
    except (OSError, EOFError, pickle.UnpicklingError):
        return entries


@dataclass
class Job:
    """A subject that a process of its own audits, with its journal and what it prints in ``folder``.

    ``traced`` says whether a sampler may be; ``report`` is None before the audit has ended.
    """

    name: str
    options: AuditOptions
    folder: Path
    traced: bool = True
    report: SubjectReport | None = None
    _ended: int = 0
    _last: str = ""
    _since: float = 0.0

    def begin(self) -> None:
        """Count its checks from now on."""
        self._ended, self._last, self._since = 0, "", time.monotonic()

    @property
    def done(self) -> int:
        """How many checks have ended."""
        return len(CHECKS) if self.report else self._ended

    def new(self) -> Iterator[str]:
        """Yield a line for each check that has ended since the last call."""
        ended = [entry for entry in read_journal(self.folder) if isinstance(entry, CheckResult)]
        for check in ended[self._ended :]:
            self._ended, self._last, self._since = self._ended + 1, check.name, time.monotonic()
            if check.status not in UNTRIED:
                yield f"{self.name}: {check.name} {check.status.value}, {check.seconds:.1f} s"

    def now(self) -> str:
        """Return which check runs, for how long, and what it may take where it samples."""
        names = [*_names(read_journal(self.folder)), "report"]
        check = names[names.index(self._last) + 1 if self._last in names else 0]
        took = time.monotonic() - self._since
        budget = f" (budget {self.options.budget:g} s)" if took > LOOK_SECONDS else ""
        return f"{self.name}: {check}, {took:.0f} s{budget}"

    def crashed_while_traced(self, future: Future[SubjectReport]) -> bool:
        """Whether the process of a sampler crashed that was traced."""
        ended = future.exception()
        is_crash = isinstance(ended, ProcessExpired) and -(ended.exitcode or 0) in _CRASHES
        journal = read_journal(self.folder) if self.traced and is_crash else []
        return any(isinstance(entry, LostSubject) and entry.kind == "sampler" for entry in journal)

    def result(self, future: Future[SubjectReport], alpha: float, timeout: float) -> SubjectReport:
        """Return the report of its process, or make one of what the process left behind."""
        try:
            return future.result()
        except TimeoutError:
            return self.remains(f"still running after {timeout:g} s", alpha, f"--timeout {_MORE * timeout:g}")
        except ProcessExpired as ended:
            return self.remains(_ending(ended.exitcode), alpha)
        except MemoryError:
            return self.remains("out of memory", alpha)
        except Exception as raised:  # noqa: BLE001  # one row is lost to a fault of ours, not the others
            ours = f"internal error: {type(raised).__name__}: "
            reason = f"{'' if isinstance(raised, InvalidInputError) else ours}{raised}"
            return replace(self.remains(reason, alpha), error=reason)

    def remains(self, reason: str, alpha: float, do: str = "") -> SubjectReport:
        """Return the report of what is in the journal, why the rest is missing, and the option to try."""
        known, checks = LostSubject(self.name), []
        for entry in read_journal(self.folder):
            if isinstance(entry, CheckResult):
                checks.append(entry)
            else:
                known = entry
        if known.kind == "unknown":
            return unloaded(self.name, reason, self.options, alpha)
        done = {check.name for check in checks}
        missing = [check for check in _names([known]) if check not in done]
        for check in missing:
            status = Status.INCONCLUSIVE if check == missing[0] else Status.NOT_RUN
            checks.append(CheckResult(check, status, reason, remarks=Remarks(do=do)))
        checks.sort(key=lambda check: [*CHECKS].index(check.name))
        return report_on(known, self.options, alpha, tuple(checks))

    def with_output(self, report: SubjectReport) -> SubjectReport:
        """Return the report with what the code printed."""
        try:
            text = (self.folder / "output").read_bytes().decode("utf-8", "replace").strip()
        except OSError:
            text = ""
        shown = text if len(text) <= _SHOWN_OUTPUT else f"... {text[-_SHOWN_OUTPUT:]}"
        return replace(report, code=replace(report.code, output=shown))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended itself with exit code {code}"


def _names(journal: Iterable[Entry]) -> list[str]:
    """Return the names of the checks of a journal's kind, in turn; of all, where it names none."""
    kind = next((entry.kind for entry in journal if isinstance(entry, LostSubject)), "")
    suite = SUITES.get(kind, CHECKS)
    return [check.name for check in IN_TURN if check.name in suite]


def unloaded(
    name: str, reason: str, options: AuditOptions, alpha: float, *, do: str = "", error: str = ""
) -> SubjectReport:
    """Return the report on a subject that could not be loaded."""
    remarks = Remarks(do=do)
    checks = [CheckResult(check, Status.NOT_RUN, reason, remarks=remarks) for check in CHECKS]
    return replace(report_on(LostSubject(name), options, alpha, tuple(checks)), error=error)
