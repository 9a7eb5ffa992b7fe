"""What a report on a server says to do is an option of `audit-server`."""

import pytest

from spec_oracle.audit import CheckResult, Status
from spec_oracle.audit.reports import Evidence, SubjectReport, SubjectVerdict
from spec_oracle.cli import main
from spec_oracle.report.what_to_do import command_for, next_steps
from tests.spec_oracle.servers.client.stand_in import StandIn, answering

SKIP = [
    word
    for name in ("shapes", "streams", "batch", "length", "long-texts", "logprobs")
    for word in ("--skip", name)
]


@pytest.mark.parametrize(
    ("served", "options", "do"),
    [
        ({"shape": "uncounted"}, [], "give --assume-speculating"),
        ({"draft": False}, [], "turn speculation on"),
        ({}, ["--requests", "300", "--detect", "0.05"], "raise --requests"),
        ({"shape": "silent"}, [], "give --reference URL2"),
        ({"defect": "wrong-rows", "size": 2.0}, ["--skip", "model"], "give --reference URL2"),
    ],
    ids=["drafts are not counted", "no speculation", "too few", "no ids", "wrong probabilities"],
)
def test_open_checks_have_a_do_line(served, options, do, capsys):
    with answering(StandIn(**served)) as url:
        assert main(["audit-server", url, "--detect", "0.3", *SKIP, *options]) == 2
    assert f"do: {do}" in capsys.readouterr().out


def test_an_audit_without_the_checks_that_decide_says_so(capsys):
    with answering(StandIn()) as url:
        assert main(["audit-server", url, *SKIP, "--skip", "joint"]) == 2
    assert "do: run joint, too" in capsys.readouterr().out


def test_what_was_interrupted_is_to_be_run_again():
    interrupted = CheckResult("joint", Status.NOT_RUN, "interrupted")
    one = SubjectReport(
        "http://here", "server", SubjectVerdict.INCONCLUSIVE, Evidence.STATISTICAL, (interrupted,), alpha=1e-6
    )
    asked = "spec-oracle audit-server http://here --top-k 2"
    assert next_steps(one, asked) == [asked]


def test_the_next_command_is_the_one_that_made_the_report():
    one = SubjectReport(
        "http://here", "server", SubjectVerdict.INCONCLUSIVE, Evidence.STATISTICAL, (), alpha=1e-6
    )
    asked = "spec-oracle audit-server http://here --top-k 2 --budget 60"
    found = command_for(one, asked, ["--budget", "240"])
    assert found == "spec-oracle audit-server http://here --top-k 2 --budget 240"
