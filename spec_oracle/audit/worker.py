"""The process in which one subject is audited: what it runs, how it is confined, and the journal it keeps."""

import ctypes
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import chdir, suppress
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Final, NoReturn

from spec_oracle.audit import cache
from spec_oracle.audit.journal import Entry, lost_subject, unloaded
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import SubjectReport
from spec_oracle.audit.run import as_subject, audit_subject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subjects import is_third_party
from spec_oracle.audit.verdict import without_findings
from spec_oracle.errors import EngineError, InvalidInputError, SpecOracleError

_PR_SET_PDEATHSIG = 1

NOT_TRACED = "could not trace the random numbers: the process crashed; sampled instead, in another one"


def start_method(names: Sequence[str], options: Sequence[AuditOptions]) -> object:
    """Return the context of `multiprocessing` in which subjects are audited, each in a new process."""
    # Fresh processes, since array libraries do not survive a fork of their threads; where there is a fork
    # server it imports them once, before any thread is started, and for engines what shrinks counterexamples.
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    arrays = {how.array for how in options}
    libraries = (
        ["torch", "hypothesis"] if any(map(is_third_party, names)) else ["torch"] if "torch" in arrays else []
    )
    # For the figures at the end of each report: of a single one, its first verdict does not wait for them.
    late = ["scipy.optimize", "scipy.sparse"] if len(names) > 1 else []
    ours = ["spec_oracle.audit.worker", "scipy.special"]
    context.set_forkserver_preload([*ours, *late, *libraries])
    # It imports from where it starts, too: a file of the user's there must not pass for a library.
    with chdir(Path(__file__).parents[2]):
        forkserver.ensure_running()
    return context


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
            lacks_arguments = re.search(r"missing \d+ required .*argument", str(error))
            do = (isinstance(error, EngineError) and error.do) or (_MAKE if lacks_arguments else _MEND)
            return unloaded(name, f"cannot be loaded: {error}", options, alpha, do=do)
        if not traced and isinstance(subject, SamplerSubject):
            notes = (*subject.facts.notes, NOT_TRACED)
            subject = replace(subject, traceable=False, facts=replace(subject.facts, notes=notes))
        enter(lost_subject(subject))
        report = audit_subject(subject, options, alpha, note=lambda result: enter(without_findings(result)))
        if writes_imports:
            cache.write_imports(folder, started)
        with suppress(AttributeError, OSError, ValueError):  # the code may have closed or replaced it
            sys.stdout.flush()
        return report


_MAKE: Final = "write a function without arguments that makes it, and name that function"
_MEND: Final = "mend what keeps it from being loaded; `python -c 'import MODULE'` in this folder shows it"


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
