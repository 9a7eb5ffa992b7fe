"""Audits with each subject in a process of its own, so that its code cannot harm the other rows.

Code under test may end the process, hang, run out of memory, print, or start threads. Each subject is loaded
and audited by a process that is its own, with a time limit and a memory limit, output captured and Ctrl-C
ignored. It keeps a journal: what it found before it ended is in the report, and the check in which it ended
is inconclusive. Processes are pebble's, which says how each of them ended.

A sampler whose process crashes gets a second one in which its random numbers are not traced: compiled code
that reads or writes arrays at their address may find Python objects there while they are.
"""

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from pebble import ProcessExpired
from pebble.concurrent import process

from spec_oracle.audit import cache
from spec_oracle.audit.checks import CHECKS, IN_TURN
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampler.unexecuted_lines import with_notes
from spec_oracle.audit.subjects import is_third_party, quickness, require_name
from spec_oracle.audit.suite import SUITES
from spec_oracle.audit.verdict import report_on
from spec_oracle.audit.worker import IMPORTS, Entry, LostSubject, audited, read_journal, unloaded
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import split

SHOWN_OUTPUT = 2000
"""Characters of what the code under test printed that a report shows, the last ones."""

_MOST_MEMORY = 2**33
"""GiB that an operating system can be asked for."""


_CRASHES = {getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE")} - {0}

LOOK_SECONDS = 0.5
"""Seconds between two looks at the journals, for the lines of progress."""


@dataclass(frozen=True)
class Isolation:
    """``jobs`` processes at a time, each for ``timeout`` seconds and ``memory`` GiB at most (None: any).

    ``cache`` is a folder where lossless results are kept, and found again while they are still true.
    """

    jobs: int = 1
    timeout: float = 900.0
    memory: float | None = None
    cache: Path | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InvalidInputError(f"jobs: expected at least 1, got {self.jobs}")
        if not self.timeout > 0:
            raise InvalidInputError(f"timeout: expected a positive number of seconds, got {self.timeout}")
        if self.memory is not None and not 0 < self.memory < _MOST_MEMORY:
            limit = f"a positive number of GiB below {_MOST_MEMORY:,} (leave it out for no limit)"
            raise InvalidInputError(f"memory: expected {limit}, got {self.memory}")


def audit_apart(
    names: Sequence[str],
    options: AuditOptions | None = None,
    isolation: Isolation | None = None,
    progress: Callable[..., None] = lambda *_, **__: None,
    own: Mapping[str, AuditOptions] = MappingProxyType({}),
    *,
    among: int = 0,
) -> AuditReport:
    """Audit subjects given by name, each in a process of its own; reports do not depend on ``jobs``.

    ``progress`` is called with a line for each check and each subject that ends, how many checks have ended
    of how many, and, by keyword, whether it is a ``step`` of a subject, and what runs ``now``.
    ``own`` are the options of single subjects, in place of ``options`` but for what is of the whole run;
    ``among`` how many subjects share the rate, if more are audited elsewhere.
    Raises `InvalidInputError` for a name that cannot lead anywhere. After Ctrl-C the processes are
    ended, and the report holds what is done.
    """
    chosen, limits, started = options or AuditOptions(), isolation or Isolation(), time.perf_counter()
    how = [own.get(name, chosen) for name in names]
    concurrently: Any = process  # its types say mp_context, it reads context
    apart = concurrently(timeout=limits.timeout, context=_context(names, how), daemon=False)(audited)
    for name in names:
        require_name(name)
    slow_first = sorted(range(len(names)), key=lambda number: quickness(names[number]))
    alpha = split(chosen.alpha, max(len(names), among, 1))
    reports: dict[int, SubjectReport] = {}
    running: dict[Future[SubjectReport], int] = {}
    here = Path.cwd()
    steps: dict[int, _Steps] = {}

    def done() -> tuple[int, int]:
        checks = sum(step.done for number, step in steps.items() if number not in reports)
        return checks + len(reports) * len(CHECKS), len(names) * len(CHECKS)

    def now() -> str:
        return ", ".join(steps[number].now() for number in running.values())

    with TemporaryDirectory() as scratch:
        folders = [Path(scratch, str(number)) for number in range(len(names))]
        untraced: set[int] = set()
        waiting = list(slow_first)
        try:
            progress("", 0, len(names) * len(CHECKS))
            for number, kept in _kept(names, how, alpha, limits):
                reports[number] = kept
                waiting.remove(number)
                progress(f"{kept.subject}: {kept.verdict}, as on {kept.as_on}", *done())
            while waiting or running:
                while waiting and len(running) < limits.jobs:
                    number = waiting.pop(0)
                    name, folder, traced = names[number], folders[number], number not in untraced
                    started_apart = apart(
                        name,
                        how[number],
                        alpha,
                        folder,
                        limits.memory,
                        where=here,
                        traced=traced,
                        writes_imports=limits.cache is not None,
                    )
                    running[started_apart] = number
                    steps[number] = _Steps(name, folder, how[number].budget)
                ended = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done
                for number in running.values():
                    for line in steps[number].new():
                        progress(line, *done(), step=True, now=now())
                progress("", *done(), now=now())
                for future in ended:
                    number = running.pop(future)
                    name, folder = names[number], folders[number]
                    if number not in untraced and _may_run_untraced(folder, future):
                        untraced.add(number)
                        waiting.insert(0, number)
                        folders[number] = Path(scratch, f"{number}-untraced")
                        continue
                    reports[number] = _report(name, folder, future, how[number], alpha, limits)
                    progress(f"{name}: {reports[number].verdict}", *done(), now=now())
        except KeyboardInterrupt:
            for future in running:
                future.cancel()
        listed = with_notes(
            reports.get(number) or _remains(name, folder, "interrupted", how[number], alpha)
            for number, (name, folder) in enumerate(zip(names, folders, strict=True))
        )
        return AuditReport(listed, chosen.seed, chosen.alpha, seconds=time.perf_counter() - started)


class _Steps:
    """What the journal of a subject that is audited says: checks that have ended, and which one runs."""

    def __init__(self, name: str, folder: Path, budget: float) -> None:
        self.done, self._last = 0, ""
        self._name, self._folder, self._budget, self._since = name, folder, budget, time.monotonic()

    def new(self) -> Iterator[str]:
        """Yield a line for each check that has ended since the last call."""
        ended = [entry for entry in read_journal(self._folder) if isinstance(entry, CheckResult)]
        for check in ended[self.done :]:
            self.done, self._last, self._since = self.done + 1, check.name, time.monotonic()
            if check.status not in (Status.SKIPPED, Status.NOT_APPLICABLE, Status.NOT_RUN):
                yield f"{self._name}: {check.name} {check.status.value}, {check.seconds:.1f} s"

    def now(self) -> str:
        """Return which check runs, for how long, and what it may take where it samples."""
        names = [*_names(read_journal(self._folder)), "report"]
        check = names[names.index(self._last) + 1 if self._last in names else 0]
        took = time.monotonic() - self._since
        budget = f" (budget {self._budget:g} s)" if took > LOOK_SECONDS else ""
        return f"{self._name}: {check}, {took:.0f} s{budget}"


def _names(journal: Iterable[Entry]) -> list[str]:
    """Return the names of the checks of a journal's kind, in turn; of all, where it names none."""
    kind = next((entry.kind for entry in journal if isinstance(entry, LostSubject)), "")
    suite = SUITES.get(kind, CHECKS.values())
    return [check.name for check in IN_TURN if check in suite]


def _context(names: Sequence[str], options: Iterable[AuditOptions]) -> object:
    # Fresh processes, since array libraries do not survive a fork of their threads; where there is a fork
    # server it imports them once, before any thread is started, and for engines what shrinks counterexamples.
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    arrays = {how.array for how in options}
    libraries = (
        ["torch", "hypothesis"] if any(map(is_third_party, names)) else ["torch"] if "torch" in arrays else []
    )
    # Not imported with our modules: commands that only wait for audits start half a second sooner.
    mathematics = ["scipy.optimize", "scipy.sparse", "scipy.stats"]
    context.set_forkserver_preload(["spec_oracle.audit.worker", *mathematics, *libraries])
    return context


def _may_run_untraced(folder: Path, future: "Future[SubjectReport]") -> bool:
    """Whether a process crashed in which a sampler was audited."""
    ended = future.exception()
    is_crash = isinstance(ended, ProcessExpired) and -(ended.exitcode or 0) in _CRASHES
    return is_crash and any(
        isinstance(one, LostSubject) and one.kind == "sampler" for one in read_journal(folder)
    )


def _report(  # noqa: PLR0917
    name: str,
    folder: Path,
    future: "Future[SubjectReport]",
    options: AuditOptions,
    alpha: float,
    limits: Isolation,
) -> SubjectReport:
    """Wait for the report on one subject, or make one of what it left behind."""
    try:
        report = future.result()
    except TimeoutError:
        return _remains(name, folder, f"still running after {limits.timeout:g} s", options, alpha)
    except ProcessExpired as ended:
        return _remains(name, folder, _ending(ended.exitcode), options, alpha)
    except MemoryError:
        return _remains(name, folder, "out of memory", options, alpha)
    except Exception as error:  # noqa: BLE001  # one row is lost to a fault of ours, not the others
        ours = "" if isinstance(error, InvalidInputError) else f"internal error: {type(error).__name__}: "
        reason = f"{ours}{error}"
        return replace(_remains(name, folder, reason, options, alpha), error=reason)
    if limits.cache:
        cache.keep(limits.cache, report, folder / IMPORTS, options, alpha)
    return _with_output(report, folder)


def _kept(
    names: Sequence[str], how: Sequence[AuditOptions], alpha: float, limits: Isolation
) -> Iterator[tuple[int, SubjectReport]]:
    """Yield the results that are kept and still true, by the number of their subject."""
    if limits.cache is not None:
        for number, name in enumerate(names):
            if kept := cache.found(limits.cache, name, how[number], alpha):
                yield number, kept


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended itself with exit code {code}"


def _remains(name: str, folder: Path, reason: str, options: AuditOptions, alpha: float) -> SubjectReport:
    """Return the report on a subject whose process is gone: its journal, and why the rest is missing."""
    known, checks = LostSubject(name), []
    for entry in read_journal(folder):
        if isinstance(entry, CheckResult):
            checks.append(entry)
        else:
            known = entry
    if known.kind == "unknown":
        return _with_output(unloaded(name, reason, options, alpha), folder)
    done = {check.name for check in checks}
    missing = [check for check in _names([known]) if check not in done]
    checks += [CheckResult(check, Status.INCONCLUSIVE, reason) for check in missing[:1]]
    checks += [CheckResult(check, Status.NOT_RUN, reason) for check in missing[1:]]
    checks.sort(key=lambda check: [*CHECKS].index(check.name))
    return _with_output(report_on(known, options, alpha, tuple(checks)), folder)


def _with_output(report: SubjectReport, folder: Path) -> SubjectReport:
    return replace(report, code=replace(report.code, output=_printed(folder)))


def _printed(folder: Path) -> str:
    try:
        text = (folder / "output").read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return text if len(text) <= SHOWN_OUTPUT else f"... {text[-SHOWN_OUTPUT:]}"
