"""Requests: bounded, sent again, counted on both sides; the key stays where it is; TLS is verified."""

import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lab.benchmarks.loopback import DropError, serving
from spec_oracle.contracts.completion import Sampling
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.fields import known_axes
from spec_oracle.servers.client.client import Client, Limits, Request
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import OutOfTimeError, RefusedError, ServerError
from tests.spec_oracle.servers.client.stand_in import StandIn

QUICK = Limits(timeout=5.0, pause=0.01, concurrency=4)
ASK = Request("/completion", {"prompt": [1, 2], "n_predict": 4, "temperature": 1.0})
CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Of this test alone: key and certificate for localhost, signed by itself, until 2126."""


def scripted(*answers):
    """A stand-in that answers in turn: (status, data), or an exception."""

    class Scripted(StandIn):
        def respond(self, path, body, name=""):
            self.calls[path] += 1
            return answers[min(sum(self.calls.values()), len(answers)) - 1]

    return Scripted()


@pytest.mark.parametrize("defect", ["errors", "closes"])
def test_no_request_is_lost_or_counted_twice(defect):
    stand_in = StandIn(defect, size=0.05)
    with serving(stand_in) as url, Client(url, QUICK) as client:
        answers = client.ask([ASK] * 400)
    # Every request was answered to the end once, with what is here.
    assert len(stand_in.sent) == 400
    assert all(len(texts) == 1 for texts in stand_in.sent.values())
    here = sorted(tuple(answer.data["tokens"]) for answer in answers)
    assert here == sorted(texts[0] for texts in stand_in.sent.values())
    # 400 requests at 5 %: none fails with probability 1e-9.
    again = stand_in.calls["/completion"] - 400
    assert 1 <= sum(answer.is_doubtful for answer in answers) <= again


def test_too_many_requests_are_sent_again_and_are_not_doubtful():
    stand_in = scripted((429, {}), (429, {}), (200, {"tokens": []}))
    with serving(stand_in) as url, Client(url, QUICK) as client:
        (answer,) = client.ask([ASK])
    assert not answer.is_doubtful
    assert stand_in.calls.total() == 3


def test_refused_requests_are_not_sent_again():
    stand_in = scripted((400, {"error": "no such field"}))
    with (
        serving(stand_in) as url,
        Client(url, QUICK) as client,
        pytest.raises(RefusedError, match="HTTP 400.*no such field"),
    ):
        client.ask([ASK])
    assert stand_in.calls["/completion"] == 1


def test_a_request_at_which_the_server_fails_each_time_is_refused_and_others_are_answered():
    error = (500, {"error": "no such byte"})
    stand_in = scripted(*[error] * QUICK.attempts, (200, {"tokens": []}))
    with serving(stand_in) as url, Client(url, QUICK) as client:
        with pytest.raises(RefusedError, match="failed 6 times with HTTP 500.*no such byte"):
            client.ask([ASK])
        assert len(client.ask([ASK])) == 1


def test_a_request_that_always_fails_ends_the_audit():
    stand_in = scripted((503, {}))
    with serving(stand_in) as url, Client(url, QUICK) as client:
        with pytest.raises(ServerError, match="failed 6 times; the last cause: HTTP 503"):
            client.ask([ASK])
        with pytest.raises(ServerError, match="failed 6 times"):
            client.ask([ASK])
    assert stand_in.calls["/completion"] == 6


def test_a_server_that_is_gone_is_reported():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(url, QUICK) as client, pytest.raises(ServerError, match="no connection"):
        client.ask([ASK])


def test_no_request_is_sent_once_the_time_is_over():
    """The time may be extended: the server is not taken for dead."""
    stand_in = StandIn()
    with serving(stand_in) as url, Client(url, QUICK, end=0.0) as client:
        with pytest.raises(OutOfTimeError, match="0 requests were answered.*raise --budget"):
            client.ask([ASK])
        assert not stand_in.calls
        client.end = float("inf")
        assert client.ask([ASK])


@pytest.mark.parametrize(("usual", "is_alive"), [(0.4, True), (0.0, False)], ids=["slow as ever", "hangs"])
def test_at_the_end_of_the_time_a_slow_server_is_not_taken_for_one_that_hangs(usual, is_alive, monkeypatch):
    monkeypatch.setattr("spec_oracle.servers.client.client.GIVEN_UP", 0.1)

    class Slow(StandIn):
        def respond(self, path, body, name=""):
            time.sleep(0.6 if self.calls[path] else usual)
            return super().respond(path, body, name)

    with serving(Slow()) as url, Client(url, QUICK) as client:
        client.ask([ASK])
        client.end = time.monotonic() + 0.3
        with pytest.raises(ServerError) as raised:
            client.ask([ASK])
    assert isinstance(raised.value, OutOfTimeError) is is_alive


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_silent_server_is_asked_again_until_it_is_given_up(is_given_up, monkeypatch):
    """Its next answer may just have been a long one."""
    monkeypatch.setattr("spec_oracle.servers.client.client.GIVEN_UP", 0.1 if is_given_up else 99.0)

    class Silent(StandIn):
        def respond(self, path, body, name=""):
            time.sleep(0.6 if self.calls[path] == 1 else 0.0)
            return super().respond(path, body, name)

    stand_in = Silent()
    with serving(stand_in) as url, Client(url, QUICK) as client:
        client.ask([ASK])
        client.end = time.monotonic() + 0.3
        with pytest.raises(ServerError, match="has not answered" if is_given_up else "out of time"):
            client.ask([ASK])
        client.end = float("inf")
        if is_given_up:
            with pytest.raises(ServerError, match="has not answered"):
                client.ask([ASK])
        else:
            assert client.ask([ASK])


def test_redirects_are_not_followed():
    with (
        serving(scripted((302, {}))) as url,
        Client(url, QUICK) as client,
        pytest.raises(ServerError, match="redirect"),
    ):
        client.ask([ASK])


def test_an_answer_that_is_no_json_is_asked_for_again():
    stand_in = scripted((200, b"<html>"), (200, {"tokens": []}))
    with serving(stand_in) as url, Client(url, QUICK) as client:
        (answer,) = client.ask([ASK])
    assert answer.is_doubtful
    assert stand_in.calls.total() == 2


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"1"),
    ],
    ids=["silent", "byte by byte"],
)
def test_every_request_is_bounded_in_time(begun, more):
    """A server that says nothing, or a little at a time for ever, holds a request for its limit."""
    over = threading.Event()

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(begun)
            with suppress(OSError):
                while not over.wait(0.05):
                    connection.sendall(more)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        limits = Limits(timeout=0.3, attempts=1)
        with Client(url, limits) as client, pytest.raises(ServerError, match=r"no answer in 0\.3 s"):
            client.ask([ASK])
        over.set()
        thread.join()


def test_ctrl_c_ends_the_audit_and_is_reported(monkeypatch):
    def interrupted(request):
        raise KeyboardInterrupt

    with Client("http://127.0.0.1:1", QUICK) as client:
        monkeypatch.setattr(client, "_answer", interrupted)
        with pytest.raises(ServerError, match="interrupted"):
            client.ask([ASK])


def test_the_key_is_sent_and_never_shown(monkeypatch):
    monkeypatch.setenv("A_KEY", "s3cr3t")
    seen = []

    class Echo(StandIn):
        def respond(self, path, body, name=""):
            return 401, {"error": "wrong key s3cr3t"}

    with serving(Echo()) as url, Client(url, QUICK, key_variable="A_KEY") as client:
        send = client._http.handle_request
        note = lambda request: [seen.append(request.headers["authorization"]), send(request)][1]  # noqa: E731
        monkeypatch.setattr(client._http, "handle_request", note)
        with pytest.raises(RefusedError) as error:
            client.ask([ASK])
    assert seen == ["Bearer s3cr3t"]
    assert "s3cr3t" not in str(error.value) + repr(client)
    assert "wrong key ***" in str(error.value)
    with pytest.raises(InvalidInputError, match="no variable 'NO_KEY'"):
        Client("http://127.0.0.1:1", key_variable="NO_KEY")


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:80", "ftp://here", "http://", "http://here:99999999", "http://u:p@here", "http://h/?a=b"],
)
def test_addresses_that_are_none_are_refused(url):
    with pytest.raises(InvalidInputError, match="url"):
        Client(url)


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving(StandIn()) as url, Client(url, QUICK) as client:
        (answer,) = client.ask([ASK])
    assert answer.data["tokens"]


@pytest.mark.parametrize("trusted", [None, CERTIFICATE], ids=["usual", "given"])
def test_certificates_are_verified(trusted, monkeypatch):
    """A certificate that nobody vouches for is refused, unless the user does."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    stand_in = StandIn()
    with (
        serving(stand_in, tls=context) as url,
        Client(url.replace("http:", "https:"), QUICK) as client,
    ):
        if trusted is None:
            with pytest.raises(ServerError, match="CERTIFICATE_VERIFY_FAILED"):
                client.ask([ASK])
        else:
            assert client.ask([ASK])[0].data["tokens"]
    assert bool(stand_in.sent) is (trusted is not None)


class ClosesAtBias(StandIn):
    """Closes the connection at one field, and serves all else."""

    def respond(self, path, body, name=""):
        if body and "logit_bias" in body:
            raise DropError
        return super().respond(path, body, name)


def test_a_request_that_fails_each_time_is_refused_where_an_ordinary_one_is_answered():
    biased = Request(ASK.path, {**ASK.body, "logit_bias": [[1, -1.5]]})
    with serving(ClosesAtBias()) as url, Client(url, Limits(pause=0.001)) as client:
        server = connect(client, Sampling(top_k=3), prompts=["bc", "def"])
        with pytest.raises(RefusedError, match=r"6 times \(connection broken\), others are answered"):
            client.ask([biased])
        axes, unknown = known_axes(Distributions(server))
    assert unknown["logit bias"] == "requests with it fail each time: connection broken"
    assert "repetition penalty" in axes
