"""Run code under test in this process: one thread for torch, and another that watches its calls.

What a call raises, changes, or waits for is a result, and harms nothing else.

Around every call (`raising`) exceptions become errors of the subject that name its line, and what the code
set for the whole process (numpy's error handling, warnings filters, standard output) is set back. While a
subject is audited (`watched`), a thread watches the calls: one that takes much too long, or waits without
using any processor time, is ended with its line. Only calls of the main thread can be ended so, not on
Windows, and not inside compiled code: there the time limit of the process remains.
"""

import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from spec_oracle.errors import SpecOracleError, SubjectRaisedError, not_installed
from spec_oracle.places import raised_at, running_at

WAITING_SECONDS: Final = 60.0
"""How long a call may wait without any processor time being used."""

_LOOKS: Final = 0.2
_AGAIN: Final = 5.0
"""Seconds between two looks at a call, and until one that goes on all the same is ended again."""

_USED: Final = 0.02
"""Processor seconds from which on a process was not only waiting."""


class EndedError(BaseException):
    """Ends a call from outside; code under test must not catch it."""


class CallEndedError(SubjectRaisedError):
    """A call of code under test took much too long, or waited in vain, and was ended; says where it was."""


@dataclass
class _GuardedCall:
    """The call in progress: when it must be over (`time.monotonic`), and why it is ended."""

    seconds: float
    started: float = field(default_factory=time.monotonic)
    why: str = ""
    due: float = float("inf")
    seen: tuple[float, float] = (0.0, -float("inf"))
    """When the process was last seen to use the processor, and the seconds it had used; none at first."""

    def look(self, now: float) -> bool:
        """Say whether it is to be ended now; the looks themselves take processor time, too."""
        used = time.process_time() - time.thread_time()
        if used - self.seen[1] > _USED:
            self.seen = now, used
        if not self.why and now - self.started > self.seconds:
            self.why, self.due = f"still running after {self.seconds:.1f} s", now
        elif not self.why and now - self.seen[0] > WAITING_SECONDS:
            self.why, self.due = f"waiting for {WAITING_SECONDS:g} s without using the processor", now
        if now < self.due:
            return False
        self.due = now + _AGAIN
        return True


@dataclass
class _State:
    """The state of the calls of this process; only the main thread begins and ends calls."""

    call: _GuardedCall | None = None
    most: float = float("inf")
    is_watched: bool = False


_state = _State()


class _Settings:
    """What code sets for the whole process, as it is now."""

    def __init__(self) -> None:
        self.numpy: Any = sys.modules.get("numpy")
        self.errors: Any = self.numpy and self.numpy.geterr()
        self.filters = [*warnings.filters]
        self.streams = sys.stdout, sys.stderr

    def set_back(self) -> None:
        """Set it back to what it was."""
        if self.numpy and self.numpy.geterr() != self.errors:
            self.numpy.seterr(**self.errors)
        if warnings.filters != self.filters:
            warnings.filters[:] = self.filters  # type: ignore[index]
            with suppress(AttributeError):  # what makes Python forget which warnings it has shown
                warnings._filters_mutated()  # type: ignore[attr-defined]  # noqa: SLF001
        sys.stdout, sys.stderr = self.streams
        _with_open_streams()


def _with_open_streams() -> None:
    """Open standard output and error again where code under test has closed them; its files stay."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(getattr(sys, name), "closed", False):
            with suppress(OSError):
                setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def raising(seconds: float = float("inf")) -> "Raising":
    """Turn whatever code under test raises inside the block into a `SubjectRaisedError`.

    So is a block that takes longer than ``seconds`` while a subject is `watched`. Blocks may lie in each
    other: the outer one counts.
    """
    return Raising(seconds)


class Raising:
    """The block of `raising`: a class, since it is around each of a million calls and takes half as long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: _Settings | None = None

    def __enter__(self) -> None:
        if _state.call is None and threading.current_thread() is threading.main_thread():
            self._kept = _Settings()
            _state.call = _GuardedCall(min(self._seconds, _state.most))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                _raise_as_error(error)
        finally:
            if self._kept is not None:
                try:
                    self._kept.set_back()
                finally:
                    _state.call = None


def _raise_as_error(error: BaseException) -> None:
    """Raise what code under test raised as an error of the subject; return for our own, and for Ctrl-C."""
    if isinstance(error, EndedError):
        raise CallEndedError(str(error)) from None
    if not isinstance(error, (SpecOracleError, KeyboardInterrupt)):  # it may call sys.exit
        raise SubjectRaisedError(f"raised {_told(error)}") from error


def _told(error: BaseException) -> str:
    place, (first, *_) = raised_at(error), [*str(error).strip().splitlines(), ""]
    return f"{type(error).__name__}: {first}{f' (at {place})' * bool(place)}{_hint(error)}"


EXTRAS: Final = {"torch": "torch", "transformers": "hf", "matplotlib": "plot", "httpx": "server"}
"""What spec-oracle installs with an extra, by the name of the package."""


def _hint(error: BaseException) -> str:
    """Return how to install a package that an import lacks, "" for other errors."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    if package in EXTRAS:
        return f"; {not_installed(package, EXTRAS[package])}"
    return f"; is {package} installed where spec-oracle is, in {sys.prefix}?"


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Give each call that begins inside the block so many seconds at most."""
    before, _state.most = _state.most, seconds
    try:
        yield
    finally:
        _state.most = before


@contextmanager
def watched() -> Iterator[None]:
    """Watch the calls of code under test inside the block; see the module."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "pthread_kill") or _state.is_watched:
        yield
        return
    handler = signal.signal(signal.SIGVTALRM, _on_signal)
    main, over = threading.get_ident(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(main, over), daemon=True, name="spec-oracle watcher")
    _state.is_watched = True
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        _state.is_watched = False
        signal.signal(signal.SIGVTALRM, handler)


def _watch(main: int, over: threading.Event) -> None:
    while not over.wait(_LOOKS):
        call = _state.call
        if call is not None and call.look(time.monotonic()):
            signal.pthread_kill(main, signal.SIGVTALRM)


def _on_signal(number: int, frame: FrameType | None) -> None:
    del number
    call = _state.call
    if call is not None and call.why:
        place = running_at(frame)
        raise EndedError(f"{call.why}{f' (at {place})' * bool(place)}")


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch, where it is loaded, to one thread: on toy tensors the others cost more than they bring."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
