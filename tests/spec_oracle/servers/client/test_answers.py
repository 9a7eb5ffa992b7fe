"""Answers of an earlier run count once more, each once, where the same is asked of the same server."""

import re
from contextlib import closing

import pytest

from spec_oracle.audit import AuditOptions, Status
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.answers import KeptAnswers
from spec_oracle.servers.client.client import Client
from spec_oracle.servers.client.server import connect
from tests.spec_oracle.servers.client.stand_in import StandIn
from tests.subjects import checks_of

OTHERS = dict.fromkeys(["shapes", "length", "long-texts", "logprobs", "streams", "batch"], "")


class Here(Client):
    """A client whose requests a stand-in answers in this process."""

    def _attempt(self, request, name):
        status, data = self.stand_in.respond(request.path, request.body, name)
        self._judge(status, str(data), {})
        return data if request.body is not None else str(data).replace("'", '"')


def audited(file, *, requests=200, top_k=3, entropy=0):
    """Return the result of `joint`, how many requests were sent, and what the file says of itself."""
    with closing(KeptAnswers(file)) as kept, Here("http://127.0.0.1:9", kept=kept) as client:
        client.stand_in = StandIn(entropy=entropy)
        server = connect(client, Sampling(top_k=top_k), prompts=["bc"])
        plan = ServerPlan(detect=0.3, requests=requests)
        (found,) = audit_server(ServerSubject("here", server, plan), AuditOptions(skip=OTHERS)).subjects
        joint = checks_of(found)["joint"]
        return joint, client.stand_in.calls["/completion"], kept.used


def test_a_second_run_asks_nothing_again(tmp_path):
    first, _, said = audited(tmp_path / "kept")
    assert said == ""
    again, none, said = audited(tmp_path / "kept", entropy=1)
    assert (again.status, again.detail, again.measured.draws) == (
        first.status,
        first.detail,
        first.measured.draws,
    )
    assert none == 0
    assert re.fullmatch(r"answers of .*kept count again: \d+ as on \d{4}-\d\d-\d\d", said)


def test_a_longer_run_asks_only_for_missing_answers(tmp_path):
    _, sent, _ = audited(tmp_path / "kept")
    more, fresh, said = audited(tmp_path / "kept", requests=400, entropy=1)
    assert more.measured.draws > 200
    assert more.status is not Status.FAILED
    assert 0 < fresh < sent
    assert "answers of" in said


def test_other_settings_are_asked_for_anew(tmp_path):
    audited(tmp_path / "kept")
    _, fresh, _ = audited(tmp_path / "kept", top_k=2)
    assert fresh > 200


def test_a_line_that_was_being_written_is_left_out(tmp_path):
    audited(tmp_path / "kept")
    text = (tmp_path / "kept").read_text()
    (tmp_path / "kept").write_text(text[:-10])
    _, fresh, _ = audited(tmp_path / "kept")
    assert fresh == 1
    assert (tmp_path / "kept").read_text().count("\n") == text.count("\n")


def test_a_file_of_something_else_is_a_mistake(tmp_path):
    (tmp_path / "kept").write_text("something else\n")
    with pytest.raises(ValueError, match="line 1: not an answer"):
        KeptAnswers(tmp_path / "kept")
