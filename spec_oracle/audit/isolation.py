"""Audits with each subject in a process of its own, so that its code cannot harm the other rows.

Code under test may end the process, hang, run out of memory, print, or start threads. Each subject is loaded
and audited by a process that is its own, with a time limit and a memory limit, output captured and Ctrl-C
ignored. It keeps a journal: what it found before it ended is in the report, and the check in which it ended
is inconclusive. Processes are pebble's, which says how each of them ended.

A sampler whose process crashes gets a second one in which its random numbers are not traced: compiled code
that reads or writes arrays at their address may find Python objects there while they are.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from pebble.concurrent import process

from spec_oracle.audit import cache
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.journal import LOOK_SECONDS, Job
from spec_oracle.audit.options import AuditOptions, Isolation
from spec_oracle.audit.reports import AuditReport, SubjectReport
from spec_oracle.audit.sampler.unexecuted_lines import with_notes
from spec_oracle.audit.subjects import quickness, require_name
from spec_oracle.audit.worker import audited, start_method
from spec_oracle.errors import INTERRUPTED
from spec_oracle.statistics import split


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
    for name in names:
        require_name(name)
    alpha = split(chosen.alpha, max(len(names), among, 1))
    with TemporaryDirectory() as scratch:
        jobs = [
            Job(name, own.get(name, chosen), Path(scratch, str(number))) for number, name in enumerate(names)
        ]
        running: dict[Future[SubjectReport], Job] = {}
        try:
            _run(jobs, running, alpha, limits, progress)
        except KeyboardInterrupt:
            for future in running:
                future.cancel()
        found = with_notes(job.report or job.with_output(job.remains(INTERRUPTED, alpha)) for job in jobs)
    return AuditReport(found, chosen.seed, chosen.alpha, seconds=time.perf_counter() - started)


def _run(
    jobs: Sequence[Job],
    running: dict[Future[SubjectReport], Job],
    alpha: float,
    limits: Isolation,
    progress: Callable[..., None],
) -> None:
    """Audit the subjects, slow ones first; ``running`` are those whose processes run."""
    concurrently: Any = process  # its types say mp_context, it reads context
    context = start_method([job.name for job in jobs], [job.options for job in jobs])
    apart = concurrently(timeout=limits.timeout, context=context, daemon=False)(audited)
    here, waiting = Path.cwd(), sorted(jobs, key=lambda job: quickness(job.name))

    def tell(line: str, *, step: bool = False) -> None:
        done, now = sum(job.done for job in jobs), ", ".join(job.now() for job in running.values())
        progress(line, done, len(jobs) * len(CHECKS), step=step, now=now)

    tell("")
    for job in jobs:
        if limits.cache and (kept := cache.found(limits.cache, job.name, job.options, alpha)):
            job.report = kept
            waiting.remove(job)
            tell(f"{kept.subject}: {kept.verdict}, as on {kept.as_on}")
    while waiting or running:
        while waiting and len(running) < limits.jobs:
            job = waiting.pop(0)
            how = {"where": here, "traced": job.traced, "writes_imports": limits.cache is not None}
            running[apart(job.name, job.options, alpha, job.folder, limits.memory, **how)] = job
            job.begin()
        ended = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done
        for job in running.values():
            for line in job.new():
                tell(line, step=True)
        tell("")
        for future in ended:
            job = running.pop(future)
            if job.crashed_while_traced(future):
                job.traced, job.folder = False, Path(f"{job.folder}-untraced")
                waiting.insert(0, job)
                continue
            found = job.result(future, alpha, limits.timeout)
            if limits.cache:
                cache.keep(limits.cache, found, job.folder, job.options, alpha)
            job.report = job.with_output(found)
            tell(f"{job.name}: {job.report.verdict}")
