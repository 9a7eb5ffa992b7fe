"""Local weights in a process of their own: loading them, or a pass, may take longer than there is time."""

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Self

from spec_oracle.audit.logprobs import Logs
from spec_oracle.errors import InvalidInputError
from spec_oracle.language_models import load_language_model
from spec_oracle.servers.checks.weights import Rows, of_weights
from spec_oracle.servers.contract import OutOfTimeError

PATIENCE = 2.0
"""Seconds in which the process may end by itself."""


class Apart:
    """The `Rows` that ``load`` returns in another process, which ends with this one.

    ``end`` is when nobody waits for them any more, on the clock of `time.monotonic`.
    """

    def __init__(self, load: Callable[[], Rows]) -> None:
        self.end, self._is_ready = math.inf, False
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(load, other), daemon=True)
        self._process.start()
        other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: by asking it to, so that what it shares with this one is cleaned up."""
        self._process.terminate()
        self._process.join(PATIENCE)
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def is_ready(self, seconds: float | None) -> bool:
        """Whether the weights are loaded, after so many seconds at most, None for any."""
        if not self._is_ready and self._pipe.poll(seconds):
            self._is_ready = self._received() is None
        return self._is_ready

    def __call__(self, prompt: Sequence[Any], tokens: Sequence[Any]) -> Sequence[Logs | None]:
        """Return what is listed at each token; raises `OutOfTimeError` at the end."""
        if self.is_ready(self._seconds_left()):
            self._pipe.send((prompt, tokens))
            if self._pipe.poll(self._seconds_left()):
                found: Sequence[Logs | None] = self._received()
                return found
        raise OutOfTimeError("out of time: local weights take longer; raise --budget")

    def _seconds_left(self) -> float | None:
        return max(self.end - time.monotonic(), 0.0) if math.isfinite(self.end) else None

    def _received(self) -> Any:
        try:
            found = self._pipe.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            raise InvalidInputError(f"local weights: their process ended with code {code}") from None
        if isinstance(found, Exception):
            raise found
        return found


def rows_of(spec: str) -> Rows:
    """Load the weights of a short text, as `load_language_model` knows them."""
    return of_weights(load_language_model(spec).network)


def _serve(load: Callable[[], Rows], pipe: Connection) -> None:
    """Load, then answer requests for rows, until the other side is gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # progress bars of loaders
        os.dup2(quiet, stream)
    try:
        rows = load()
        pipe.send(None)
        while True:
            pipe.send(rows(*pipe.recv()))
    except EOFError:
        return
    except InvalidInputError as error:
        pipe.send(error)
    except Exception as error:  # noqa: BLE001  # of any loader; it is told where it is asked for
        pipe.send(InvalidInputError(f"local weights: {type(error).__name__}: {error}"))
