"""One attempt at a request over HTTP, bounded in time and in size.

A time limit of httpx is one for each read. A server that sends its answer byte by byte never exceeds it, so
the whole of an answer is timed here.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from spec_oracle.errors import InvalidInputError, not_installed
from spec_oracle.version import tool_version

if TYPE_CHECKING:
    import httpx

LARGEST_ANSWER = 2**24
"""Bytes; no answer of a few tokens is longer."""

NO_CONNECTION = "no connection"


class AgainError(Exception):
    """One attempt failed; ``cause`` is counted; ``is_doubtful`` if an answer may have been under way.

    ``message`` is what a server in working order says of a request that it fails at.
    """

    def __init__(
        self, cause: str, *, is_doubtful: bool = True, pause: float = 0.0, message: str = ""
    ) -> None:
        super().__init__(cause)
        self.cause, self.is_doubtful, self.pause, self.message = cause, is_doubtful, pause, message


@dataclass(frozen=True)
class Response:
    """What came back: all of it."""

    status: int
    text: str
    headers: Mapping[str, str]


class Connections:
    """Up to ``most`` connections to one server: no proxies, no redirects, TLS verified."""

    def __init__(self, most: int, headers: Mapping[str, str]) -> None:
        httpx = _httpx()
        self.http = httpx.Client(
            verify=httpx.create_ssl_context(trust_env=True),  # the usual authorities, or SSL_CERT_FILE's
            trust_env=False,
            headers={"User-Agent": f"spec-oracle/{tool_version()}", **headers},
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
        )

    def attempt(self, url: str, content: str | None, headers: Mapping[str, str], timeout: float) -> Response:
        """Send a POST of ``content``, a GET without; raises `AgainError` after ``timeout`` seconds, about."""
        httpx, until, method = _httpx(), time.monotonic() + timeout, "GET" if content is None else "POST"
        asked = {"content": content, "headers": headers, "timeout": timeout}
        try:
            with self.http.stream(method, url, **asked) as response:
                return Response(response.status_code, _body(response, until), response.headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise AgainError(f"{NO_CONNECTION} ({error!s:.200})", is_doubtful=False) from None
        except (httpx.TransportError, httpx.DecodingError, TimeoutError) as error:
            is_late = isinstance(error, httpx.TimeoutException | TimeoutError) or time.monotonic() > until
            raise AgainError(f"no answer in {timeout:.3g} s" if is_late else "connection broken") from None

    def close(self) -> None:
        """Close all connections."""
        self.http.close()


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
