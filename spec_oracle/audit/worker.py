"""The process in which one subject is audited: what it runs, how it is confined, and the journal it keeps."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

from spec_oracle.audit import cache
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import SubjectReport
from spec_oracle.audit.results import CheckResult, Remarks, Status
from spec_oracle.audit.run import as_subject, audit_subject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.verdict import report_on, without_findings
from spec_oracle.errors import EngineError, InvalidInputError, SpecOracleError

_PR_SET_PDEATHSIG = 1

NOT_TRACED = "could not trace the random numbers: the process crashed; sampled instead, in another one"

IMPORTS = "imports"
"""In the folder of a subject: a file with digests of what its code imported."""


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


def audited(
    name: str,
    options: AuditOptions,
    alpha: float,
    folder: Path,
    memory: float | None,
    *,
    where: Path,
    traced: bool,
    writes_imports: bool,
) -> SubjectReport:
    """Load and audit one subject, in its own process; journal and output are in ``folder``.

    Its modules and files are looked for in ``where``; ``traced`` says whether a sampler may be. ``memory`` in
    GiB, None for any; ``writes_imports``: whether digests of what the code imported are left in ``folder``.
    """
    started = time.time()
    folder.mkdir()
    os.chdir(where)
    # What shrinks counterexamples would leave its own folder where the user works.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(folder / "hypothesis"))
    confine(folder / "output", memory)
    with (folder / "journal").open("wb") as journal:

        def enter(entry: Entry) -> None:
            pickle.dump(entry, journal)
            journal.flush()

        try:
            subject = as_subject(name, options)
        except InvalidInputError as error:
            return unloaded(name, str(error), options, alpha, error=str(error))
        except SpecOracleError as error:
            do = (isinstance(error, EngineError) and error.do) or _MEND
            return unloaded(name, f"cannot be loaded: {error}", options, alpha, do=do)
        if not traced and isinstance(subject, SamplerSubject):
            notes = (*subject.facts.notes, NOT_TRACED)
            subject = replace(subject, traceable=False, facts=replace(subject.facts, notes=notes))
        enter(lost_subject(subject))
        report = audit_subject(subject, options, alpha, note=lambda result: enter(without_findings(result)))
        if writes_imports:
            cache.write_imports(folder / IMPORTS, started)
        with suppress(AttributeError, OSError, ValueError):  # the code may have closed or replaced it
            sys.stdout.flush()
        return report


_MEND: Final = "mend what keeps it from being loaded; `python -c 'import MODULE'` in this folder shows it"


def unloaded(
    name: str, reason: str, options: AuditOptions, alpha: float, *, do: str = "", error: str = ""
) -> SubjectReport:
    """Return the report on a subject that could not be loaded."""
    remarks = Remarks(do=do)
    checks = [CheckResult(check, Status.NOT_RUN, reason, remarks=remarks) for check in CHECKS]
    return replace(report_on(LostSubject(name), options, alpha, tuple(checks)), error=error)


def read_journal(folder: Path) -> list[Entry]:
    """Return what a process has entered so far: the subject, and the results of its checks."""
    entries: list[Entry] = []
    try:
        with (folder / "journal").open("rb") as journal:
            while True:
                entries.append(pickle.load(journal))  # noqa: S301  # our own, in a folder of our own
    except (OSError, EOFError, pickle.UnpicklingError):
        return entries


def confine(output: Path, memory: float | None) -> None:
    """Prepare this process for code under test.

    What it prints goes to a file, its memory is limited (GiB, None for any), Ctrl-C is left to its parent,
    and it ends when its parent does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if memory is not None and sys.platform != "win32":
        import resource

        # Data, not address space: drivers of accelerators reserve far more addresses than they use.
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory * 2**30),) * 2)


def _end_with_parent() -> None:
    """End this process when the one that asked for it has ended, however that ended."""
    if sys.platform == "linux":
        # Also while compiled code keeps all threads waiting. The fork server ends with the command.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True, name="spec-oracle parent").start()


def _end_after(parent: Any) -> NoReturn:
    parent.join()
    os._exit(1)
