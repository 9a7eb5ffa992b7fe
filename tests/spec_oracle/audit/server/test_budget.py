"""The budget is one for the whole audit: it ends in time whatever the server does, and says what to change.

Time is a number here: every request takes some of it, and nothing waits.
"""

import time

import pytest

from spec_oracle.adapters.servers.client import SHORTEST_ATTEMPT, Client, Limits, _AgainError
from spec_oracle.adapters.servers.server import connect
from spec_oracle.audit import AuditOptions, Status, audit
from spec_oracle.audit.server.subject import Plan, ServerSubject
from spec_oracle.contracts.server import Sampling
from tests.spec_oracle.adapters.servers.stand_in import StandIn

BUDGET, ALLOWED = 60.0, 75.0

ADVICE = (
    "--budget",
    "--detect",
    "--tokens",
    "--concurrency",
    "--assume-speculating",
    "--top-k",
    "see plain-law",
)


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.pass_by)

    def pass_by(self, seconds):
        self.now += seconds


class Paced(Client):
    """A client whose requests take ``seconds`` each, one after another; after ``dies`` nothing answers.

    A dead server refuses connections at once, or ``hangs`` until the time of a request is over.
    """

    def over(self, stand_in, clock, seconds, dies=float("inf"), *, hangs=False):
        self.stand_in, self.clock, self.seconds, self.dies, self.hangs = stand_in, clock, seconds, dies, hangs
        return self

    def _attempt(self, request, name):
        limit = min(self.limits.timeout, max(self._seconds_left(), SHORTEST_ATTEMPT))
        is_dead = self.clock.now - 1000.0 >= self.dies
        needs = (limit if self.hangs else 0.001) if is_dead else self.seconds
        self.clock.pass_by(min(needs, limit))
        if is_dead:
            cause = "no answer" if self.hangs else "no connection"
            raise _AgainError(cause, is_doubtful=self.hangs)
        if needs > limit:
            raise _AgainError("no answer in time")
        status, data = self.stand_in.respond(request.path, request.body, name)
        self._judge(status, "", {})
        return data if request.body is not None else str(data).replace("'", '"')


def audited(monkeypatch, seconds, *, dies=float("inf"), hangs=False, reference=False, **stand_in):
    clock = Clock(monkeypatch)

    def server(**options):
        client = Client.__new__(Paced)
        client.__init__("http://127.0.0.1:9", Limits(concurrency=1), end=clock.now + BUDGET)
        client.over(StandIn(**options), clock, seconds, dies, hangs=hangs)
        return connect(client, Sampling(top_k=3), prompts=["bc", "def"])

    started = clock.now
    other = server(shape="openai", draft=False, entropy=5) if reference else None
    subject = ServerSubject("here", server(**stand_in), Plan(), other, started=started)
    report = audit(subject, options=AuditOptions(budget=BUDGET))
    return report, clock.now - started


MODES = {
    "fast": {"seconds": 0.01},
    "slow": {"seconds": 0.1},
    "very slow": {"seconds": 2.0},
    "raw probabilities": {"seconds": 0.05, "shape": "openai"},
    "noisy": {"seconds": 0.02, "defect": "noisy-rows", "size": 0.1},
    "beside a reference": {"seconds": 0.02, "shape": "silent", "reference": True},
    "very slow beside a reference": {"seconds": 2.0, "shape": "silent", "reference": True},
    "killed at once": {"seconds": 0.1, "dies": 3.0},
    "killed": {"seconds": 0.05, "dies": 30.0},
    "hangs at once": {"seconds": 0.1, "dies": 3.0, "hangs": True},
    "hangs": {"seconds": 0.05, "dies": 30.0, "hangs": True},
    "killed beside a reference": {"seconds": 0.05, "dies": 20.0, "shape": "silent", "reference": True},
}


@pytest.mark.parametrize("mode", MODES)
def test_an_audit_ends_with_its_budget_and_says_what_to_change(mode, monkeypatch):
    report, seconds = audited(monkeypatch, **MODES[mode])
    assert seconds <= ALLOWED
    (server,) = report.subjects
    assert report.exit_code in {0, 2}
    for check in server.checks:
        if check.status is Status.INCONCLUSIVE:
            assert any(word in check.detail for word in ADVICE) or "dies" in MODES[mode], check.detail


def test_what_a_slow_server_said_is_kept(monkeypatch):
    """At 3 requests a second there is no verdict in a minute; completions that came are counted."""
    report, _ = audited(monkeypatch, seconds=0.3)
    checks = {check.name: check for check in report.subjects[0].checks}
    assert checks["joint"].draws >= 20
    assert "--budget" in checks["joint"].detail
