"""Requests over HTTP: each bounded in time, tried again where that is right, and counted.

The distribution of completions must not depend on which requests fail. A request that was refused before it
was served (no connection, 429) says nothing of its completion, and is sent again. One that failed later (5xx,
a broken connection, no answer in time, an answer cut short) may have failed for what it was about to say: it
is sent again too, but its answer is marked as *doubtful*. Nothing is given up silently: a request that fails
every time ends the audit.

A time limit of httpx is one for each read. A server that sends its answer byte by byte never exceeds it, so
the whole of an answer is timed here.
"""

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Final, Self

from spec_oracle.errors import INTERRUPTED, InvalidInputError, not_installed
from spec_oracle.installed import tool_version
from spec_oracle.servers.contract import Json, OutOfTimeError, RefusedError, ServerError

if TYPE_CHECKING:
    import httpx

LONGEST_PAUSE = 30.0
SHORTEST_ATTEMPT = 0.05
"""Seconds that an attempt may take although the time is nearly over."""

GIVEN_UP, PATIENCE = 20.0, 2.0
"""Seconds without an answer at the end of the time, and times those of the slowest answer before, after
which nothing more is asked: its next answer may just have been a long one."""

ANSWERED = "others are answered"
"""Said of a request that fails each time, where the server is in working order."""

SHOWN = 200
"""Characters of a server's message that an error shows."""

LARGEST_ANSWER = 2**24
"""Bytes; no answer of a few tokens is longer."""

NO_CONNECTION = "no connection"

_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Content-Type": "application/json"}
_TIMED: Final = ("connect", "read", "write", "pool")
"""Parts of an attempt, each of which has the time of all."""

TOO_MANY, SERVER_ERROR, NOT_IMPLEMENTED = 429, 500, 501


class AgainError(Exception):
    """One attempt failed for a ``cause``; ``is_doubtful`` if an answer may have been under way.

    ``message`` is what a server in working order says of a request that it fails at.
    """

    def __init__(
        self, cause: str, *, is_doubtful: bool = True, pause: float = 0.0, message: str = ""
    ) -> None:
        super().__init__(cause)
        self.cause, self.is_doubtful, self.pause, self.message = cause, is_doubtful, pause, message


@dataclass(frozen=True)
class Request:
    """A POST of ``body`` as JSON, or a GET without one.

    ``is_probe``: whether the server can do it is not known. It is refused where it fails, and not sent again.
    """

    path: str
    body: Mapping[str, object] | None = None
    is_probe: bool = False


@dataclass(frozen=True)
class Reply:
    """The answer to a request: ``data`` is JSON of a POST, and text of a GET or of a stream.

    ``is_doubtful`` if an attempt before may have failed for what it had to say.
    """

    data: Json
    is_doubtful: bool = False


@dataclass(frozen=True)
class Limits:
    """``timeout`` seconds for one attempt, ``attempts`` for a request, ``concurrency`` requests at a time.

    The pause before another attempt begins with ``pause`` seconds and doubles each time.
    """

    timeout: float = 60.0
    attempts: int = 6
    concurrency: int = 4
    pause: float = 0.25


@dataclass
class Client:
    """Sends requests to one server, and to nothing else: no proxies, no redirects, TLS verified.

    ``key_variable`` names the environment variable that holds an API key; the key goes into a header and
    nowhere else. No request goes on after ``end``, on the clock of `time.monotonic`. ``ordinary`` is a
    request that was answered: where another one fails each time, and this one is answered still, the other
    one is refused.
    """

    url: str
    limits: Limits = field(default_factory=Limits)
    key_variable: str = ""
    end: float = math.inf
    ordinary: Request | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.url = checked_url(self.url)
        self._key = os.environ.get(self.key_variable, "") if self.key_variable else ""
        if self.key_variable and not self._key:
            raise InvalidInputError(f"api_key_env: the environment has no variable {self.key_variable!r}")
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        most = self.limits.concurrency
        self._http = _connections(most, with_tls=self.url.startswith("https:"))
        self._headers = {**_HEADERS, "User-Agent": f"spec-oracle/{tool_version()}", **key}
        self._addresses: dict[str, httpx.URL] = {}
        self._pool, self._lock, self._ended = ThreadPoolExecutor(most), Lock(), ""
        self._started = self._last = time.monotonic()
        self._numbers, self._answered, self._slowest = count(1), 0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections; nothing can be asked afterwards."""
        self._pool.shutdown(cancel_futures=True)
        self._http.close()

    @property
    def pace(self) -> float:
        """Requests answered per second, so far."""
        return self._answered / max(time.monotonic() - self._started, 1e-9)

    def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Return all of `answers`."""
        return list(self.answers(requests))

    def answers(self, requests: Sequence[Request]) -> Iterator[Reply]:
        """Send requests, as many at a time as the limits allow; yield the answers in the same order.

        Raises `RefusedError` and `OutOfTimeError`; and `ServerError` for a server that is gone or silent, and
        after Ctrl-C, then for all later requests, too.
        """
        futures = [self._pool.submit(self._answer, request) for request in requests]
        try:
            for future in futures:
                yield future.result()
        except (RefusedError, OutOfTimeError):
            raise
        except (KeyboardInterrupt, ServerError) as error:
            self._ended = self._ended or str(error) or INTERRUPTED
            raise ServerError(self._ended) from None
        finally:
            for future in futures:
                future.cancel()

    def _answer(self, request: Request) -> Reply:
        number = next(self._numbers)
        is_doubtful, cause, messages = False, "", []
        for attempt in range(self.limits.attempts):
            if self._ended:
                raise ServerError(self._ended)
            if self._seconds_left() <= 0:
                raise self._out_of_time(cause)
            started = time.monotonic()
            try:
                data = self._attempt(request, f"spec-oracle-{number}")
            except AgainError as error:
                if self._seconds_left() <= 0:
                    raise self._out_of_time(cause or error.cause) from None
                if request.is_probe:
                    raise RefusedError(error.cause) from None
                is_doubtful |= error.is_doubtful
                cause, pause = error.cause, max(self.limits.pause * 2**attempt, error.pause)
                messages.append(error.message)
            else:
                with self._lock:
                    self._answered += 1
                    self._last = time.monotonic()
                    self._slowest = max(self._slowest, self._last - started)
                return Reply(data, is_doubtful)
            if attempt + 1 < self.limits.attempts:
                time.sleep(max(0.0, min(pause, LONGEST_PAUSE, self._seconds_left())))
        tried = f"{self.url}: a request failed {self.limits.attempts} times"
        if all(messages):  # it answers, and fails at this request only, as far as is known
            raise RefusedError(f"{tried} with {messages[-1]}")
        if not cause.startswith(NO_CONNECTION) and self._is_answered(self.ordinary, request):
            raise RefusedError(f"{tried} ({cause}), {ANSWERED}")
        answered = f"{self._answered:,} requests were answered before"
        raise ServerError(f"{tried}; the last cause: {cause}; {answered}")

    def _is_answered(self, ordinary: Request | None, failed: Request) -> bool:
        """Whether an ordinary request is answered now that another one has failed each time."""
        if ordinary is None or failed == ordinary:
            return False
        try:
            self._attempt(ordinary, "spec-oracle-ordinary")
        except (AgainError, ServerError):
            return False
        return True

    def _seconds_left(self) -> float:
        return self.end - time.monotonic()

    def _out_of_time(self, cause: str) -> ServerError:
        """Return what to raise once the time is over: a server that has been silent for long may be gone."""
        silent, answered = time.monotonic() - self._last, f"{self._answered:,} requests were answered"
        if cause and silent > max(GIVEN_UP, PATIENCE * self._slowest):
            since = f"{self.url} has not answered for {silent:.0f} s ({cause}); {answered} before"
            return ServerError(f"{since}; see whether it hangs, or raise --budget")
        last = f"; the last failure: {cause}" if cause else ""
        pace = f"{self.pace:,.{0 if self.pace > 10 else 1}f}"
        return OutOfTimeError(f"out of time: {answered}, {pace} a second{last}; raise --budget")

    def _attempt(self, request: Request, name: str) -> Json:
        """Send a request once, and return what it is answered; raises `AgainError` for a failed attempt."""
        httpx, timeout = _httpx(), min(self.limits.timeout, max(self._seconds_left(), SHORTEST_ATTEMPT))
        content = None if request.body is None else json.dumps(request.body)
        if request.path not in self._addresses:
            self._addresses[request.path] = httpx.URL(self.url + request.path)
        asked = httpx.Request(
            "GET" if content is None else "POST",
            self._addresses[request.path],
            content=content,
            headers={**self._headers, "X-Request-Id": name},
            extensions={"timeout": dict.fromkeys(_TIMED, timeout)},
        )
        until = time.monotonic() + timeout
        try:
            with closing(self._http.handle_request(asked)) as response:
                text = _body(response, until)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise AgainError(f"{NO_CONNECTION} ({error!s:.200})", is_doubtful=False) from None
        except (httpx.TransportError, httpx.DecodingError, TimeoutError) as error:
            is_late = isinstance(error, httpx.TimeoutException | TimeoutError) or time.monotonic() > until
            raise AgainError(f"no answer in {timeout:.3g} s" if is_late else "connection broken") from None
        self._judge(response.status_code, text, response.headers)
        try:
            return text if request.body is None or request.body.get("stream") else json.loads(text)
        except ValueError:
            raise AgainError("an answer that is not JSON") from None

    def _judge(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        """Raise what a status calls for; nothing for 200."""
        if status == TOO_MANY:
            after = headers.get("retry-after", "")
            pause = float(after) if re.fullmatch(r"\d+(\.\d+)?", after) else 0.0
            raise AgainError(f"HTTP {status}", is_doubtful=False, pause=pause)
        if status >= SERVER_ERROR and status != NOT_IMPLEMENTED:
            message = f"HTTP {status}: {self._shown(text)}" if status == SERVER_ERROR else ""
            raise AgainError(f"HTTP {status}", message=message)
        if status >= 400:
            raise RefusedError(f"HTTP {status}: {self._shown(text)}")
        if status != 200:
            raise ServerError(f"HTTP {status}: redirects are not followed; give the final address")

    def _shown(self, text: str) -> str:
        """Return what a server says as one short line, without the key, should it repeat it."""
        line = " ".join((text.replace(self._key, "***") if self._key else text).split())
        return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."


def _connections(most: int, *, with_tls: bool) -> "httpx.HTTPTransport":
    """Return up to ``most`` connections: no proxies, no redirects, TLS verified.

    A whole client of httpx would take twice the processor time: a check may send 100,000 small requests.
    Without TLS the certificates of the authorities are not read, which takes 60 ms.
    """
    library = _httpx()
    connections: httpx.HTTPTransport = library.HTTPTransport(
        # The usual authorities, or SSL_CERT_FILE's.
        verify=library.create_ssl_context(trust_env=True) if with_tls else False,
        trust_env=False,
        limits=library.Limits(max_connections=most, max_keepalive_connections=most),
    )
    return connections


def _body(response: "httpx.Response", until: float) -> str:
    """Return the body; raises `TimeoutError` when the time is over."""
    parts, size = [], 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise TimeoutError
        if size > LARGEST_ANSWER:
            raise AgainError(f"an answer of more than {LARGEST_ANSWER} bytes")
    return b"".join(parts).decode("utf-8", "replace")


def checked_url(url: str) -> str:
    """Return the address without a slash at its end; raises `InvalidInputError` for one that is none."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInputError(f"url: {error}, got {url!r}") from None
    if parts.username or parts.password:
        raise InvalidInputError("url: it contains a user name or password; use --api-key-env instead")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query:
        raise InvalidInputError(f"url: expected http://HOST:PORT or https://HOST, got {url!r}")
    return url.rstrip("/")


def _httpx() -> ModuleType:
    try:
        return import_module("httpx")
    except ModuleNotFoundError:
        raise InvalidInputError(f"servers: {not_installed('httpx', 'server')}") from None
