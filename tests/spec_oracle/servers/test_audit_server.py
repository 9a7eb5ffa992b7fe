"""``spec-oracle audit-server``: one command, a verdict; the key stays where it is."""

import json
import socket

import pytest

from lab.benchmarks.loopback import serving
from spec_oracle.cli import main
from tests.spec_oracle.servers.client.stand_in import StandIn, answering

LEFT_OUT = ("shapes", "streams", "batch", "long-texts", "length", "logprobs")
QUICK = ["--prompt", "bc", "--detect", "0.5", *(word for name in LEFT_OUT for word in ("--skip", name))]


@pytest.mark.parametrize(
    ("served", "defect", "verdict"),
    [(answering, "", "lossless"), (serving, "always-accept", "lossy")],
    ids=["right", "always-accept over HTTP"],
)
def test_one_command_gives_a_verdict(served, defect, verdict, capsys, monkeypatch):
    monkeypatch.setenv("A_KEY", "s3cr3t")
    code = int(verdict == "lossy")
    with served(StandIn(defect)) as url:
        assert main(["audit-server", url, *QUICK, "--api-key-env", "A_KEY", "--format", "json"]) == code
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    (server,) = report["subjects"]
    assert (server["subject"], server["kind"], server["verdict"]) == (url, "server", verdict)
    assert "s3cr3t" not in shown.out + shown.err
    if defect:
        assert "Bearer $A_KEY" in server["counterexample"]["reproduce"]


def test_a_server_that_is_not_there_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert main(["audit-server", url, "--timeout", "0.1"]) == 3
    assert "no connection" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "value"),
    [("--field", "no-sign"), ("--temperature", "0"), ("--tokens", "1"), ("--skip", "x")],
)
def test_mistakes_are_reported_before_any_request(argument, value, capsys):
    assert main(["audit-server", "http://127.0.0.1:9", argument, value]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_help_states_the_limits_of_a_verdict(capsys):
    with pytest.raises(SystemExit):
        main(["audit-server", "--help"])
    assert "it is no proof" in capsys.readouterr().out
