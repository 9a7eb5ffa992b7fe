"""Each check ends with its budget whatever the servers do, and the audit says what was learnt.

Time is a number here: every request takes some of it, and nothing waits.
"""

import math
import time

import pytest

from spec_oracle.audit import AuditOptions, Status
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.distributions import Weights
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.client import SHORTEST_ATTEMPT, AgainError, Client, Limits
from spec_oracle.servers.client.server import connect, same_prompts
from tests.spec_oracle.servers.client.stand_in import StandIn
from tests.strategies import by_day
from tests.subjects import checks_of

BUDGET, ALLOWED, STARTED, AT_ONCE = 16.0, 160.0, 1000.0, 3.0

ADVICE = (
    "--budget",
    "--detect",
    "--tokens",
    "--concurrency",
    "--assume-speculating",
    "--top-k",
    "--reference",
    "see plain-law",
)

KILLED, HANGS, SLOW, OUT_OF_ORDER, UNAVAILABLE, TOO_MANY, GARBAGE = FAILURES = (
    "killed",
    "hangs",
    "answers in 5 s",
    "HTTP 500",
    "HTTP 503",
    "HTTP 429",
    "an answer that is not JSON",
)
SECONDS = dict.fromkeys(FAILURES, 0.02) | {KILLED: 0.001, HANGS: math.inf, SLOW: 5.0}
"""That a request takes once the server fails."""

SAID = {KILLED: "no connection", HANGS: "has not answered"} | {
    failure: failure for failure in (UNAVAILABLE, TOO_MANY, GARBAGE, OUT_OF_ORDER)
}


class Clock:
    def __init__(self, monkeypatch):
        self.now = STARTED
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr("spec_oracle.clock.waited", lambda: 0.0)
        monkeypatch.setattr(time, "sleep", self.pass_by)

    def pass_by(self, seconds):
        self.now += seconds


class Paced(Client):
    """A client whose requests take ``seconds`` each, one after another; from ``after`` on they ``fail``."""

    def over(self, stand_in, clock, seconds, fails, after):
        self.stand_in, self.clock, self.seconds, self.fails, self.after = (
            stand_in,
            clock,
            seconds,
            fails,
            after,
        )
        return self

    def _attempt(self, request, name):
        limit = min(self.limits.timeout, max(self._seconds_left(), SHORTEST_ATTEMPT))
        fails = self.fails if self.clock.now - STARTED >= self.after else ""
        needs = SECONDS.get(fails, self.seconds)
        self.clock.pass_by(min(needs, limit))
        if fails in (KILLED, GARBAGE):
            cause = "no connection" if fails == KILLED else fails
            raise AgainError(cause, is_doubtful=fails != KILLED)
        if needs > limit:
            raise AgainError(f"no answer in {limit:.3g} s")
        if fails.startswith("HTTP"):
            self._judge(int(fails.split()[-1]), "", {"retry-after": "30"})
        status, data = self.stand_in.respond(request.path, request.body, name)
        self._judge(status, "", {})
        return data if request.body is not None else str(data).replace("'", '"')


def audited(
    monkeypatch,
    *,
    seconds=0.1,
    budget=BUDGET,
    fails="",
    after=15.0,
    who="server",
    reference=None,
    draft="",
    skip=(),
    plan=None,
    top_k=3,
    **stand_in,
):
    """Return the report, and the seconds that it took; ``who`` of the servers fails from ``after`` on."""
    clock = Clock(monkeypatch)

    def server(name, **options):
        client = Client.__new__(Paced)
        client.__init__("http://127.0.0.1:9", Limits(concurrency=1), end=clock.now + budget)
        client.over(StandIn(**options), clock, seconds, fails if name == who else "", after)
        return connect(client, Sampling(top_k=top_k), prompts=["bc", "def"])

    def rows(prompt, tokens):
        clock.pass_by(30.0 if draft == "slow weights" else 3 * seconds)
        laws = (drafter.law((*prompt, *tokens[:end]), {}) for end in range(len(tokens)))
        return [{token: math.log(p) for token, p in enumerate(law)} for law in laws]

    drafter = StandIn(draft=False, serves="draft")
    other = server("reference", draft=False, entropy=5, **reference) if reference is not None else None
    served = server("server", **stand_in)
    drafts = Weights(rows, served.prompts) if "weights" in draft else None
    if draft == "server":
        drafts = same_prompts(server("draft", draft=False, serves="draft"), served)
    subject = ServerSubject("here", served, plan or ServerPlan(), other, draft=drafts)
    options = AuditOptions(budget=budget, skip=dict.fromkeys(skip, ""))
    return audit_server(subject, options), clock.now - STARTED


OTHERS = "plain-law", "joint", "shapes", "length", "logprobs", "streams", "batch"
SPEAKS_NOT = {"shape": "silent", "plan": ServerPlan(assume_speculating=True)}
MODES = {
    "own probabilities": {},
    "probabilities before filters": {"shape": "openai"},
    "no filters": {"top_k": 0},
    "scores prompts": {"shape": "openai", "scores": "prompt_logprobs"},
    "draft server": {"draft": "server"},
    "draft weights": {"draft": "weights"},
    "reference": {"reference": {}},
    "long completions alone": {
        "draft": "server",
        "skip": OTHERS,
        "seconds": 0.03,
        "budget": 60.0,
        "after": 18.0,
    },
    "no probabilities": {**SPEAKS_NOT, "reference": {"shape": "openai"}},
    "no probabilities, no reference": SPEAKS_NOT,
    "seeded": {"plan": ServerPlan(seeded=True)},
    "for rl": {"skip": ("length", "batch")},
    "drafts not counted": {"shape": "uncounted"},
}
OF_SPEED = {
    "slow": {"seconds": 0.3},
    "very slow": {"seconds": 2.0},
    "noisy": {"seconds": 0.02, "defect": "noisy-rows", "size": 0.1},
    "very slow, no probabilities": {"seconds": 2.0, **MODES["no probabilities"]},
    "slow weights": {"skip": OTHERS, "draft": "slow weights"},
}


OF_NIGHT = {"noisy", "probabilities before filters", "no filters", "for rl"}
"""Modes that differ from others of the day in what is asked, and not in how long it may take."""
MANY_SERVERS = "draft server", "long completions alone", "reference", "no probabilities"


def failing():
    """Yield modes of several servers with each of them killed or hanging, and one mode with all failures."""
    for mode in ("own probabilities", *MANY_SERVERS):
        options = MODES[mode]
        names = ["server", *(["reference"] if "reference" in options else [])]
        for who in [*names, *(["draft"] if options.get("draft") == "server" else [])]:
            for failure in FAILURES if mode == "own probabilities" else (KILLED, HANGS):
                yield pytest.param(options, who, failure, id=f"{mode}, {who} {failure}")
    for failure in (KILLED, HANGS):
        yield pytest.param({"after": AT_ONCE}, "server", failure, id=f"{failure} at once")


@pytest.mark.parametrize("name", by_day(MODES | OF_SPEED, (MODES | OF_SPEED).keys() - OF_NIGHT))
def test_an_audit_ends_with_its_budget_and_says_what_to_change(name, monkeypatch):
    report, seconds = audited(monkeypatch, **(MODES | OF_SPEED)[name])
    assert seconds <= ALLOWED
    (server,) = report.subjects
    assert report.exit_code in {0, 2}
    for check in server.checks:
        if check.status is Status.INCONCLUSIVE:
            assert any(word in check.detail for word in ADVICE), check.detail


@pytest.mark.parametrize(("options", "who", "failure"), [*failing()])
def test_an_audit_ends_although_a_server_fails_and_keeps_what_it_saw(options, who, failure, monkeypatch):
    report, seconds = audited(monkeypatch, fails=failure, who=who, **options)
    assert seconds <= ALLOWED
    (server,) = report.subjects
    assert report.exit_code == 2
    details = [check.detail for check in server.checks if check.status is Status.INCONCLUSIVE]
    if who == "server" and failure in SAID:
        assert any(SAID[failure] in detail for detail in details), details
    assert sum(check.measured.draws or 0 for check in server.checks) > 0 or options.get("after") == AT_ONCE


def test_answers_of_a_slow_server_are_kept(monkeypatch):
    """At 3 requests a second there is no verdict in half a minute; completions that came are counted."""
    report, _ = audited(monkeypatch, seconds=0.3, budget=30.0)
    checks = checks_of(report.subjects[0])
    assert checks["joint"].measured.draws >= 20
    assert "tokens accepted" in checks["length"].detail
    assert "--budget" in checks["joint"].detail
