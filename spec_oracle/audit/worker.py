"""The process in which one subject is audited: how it is confined, and how it ends."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


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
