"""The plan: what checks need of their budgets, how long all take, and what would need less."""

import time

import pytest

from spec_oracle.audit import AuditOptions
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import How, Status, check_result
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import SERVER, Need, audit_server, needs, planned, taken
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of

SLOW = {"joint": Need(7564, "completions", 7.0), "long-texts": Need(33_000, "tokens", 1.1)}


def subject(detect=0.05, **options):
    server = server_of(StandIn(**options), top_k=3, prompts=["bc"])
    return ServerSubject("here", server, ServerPlan(detect=detect))


def test_the_plan_names_large_checks_and_options_that_need_less():
    said = planned(subject(), SLOW, 300.0)
    assert said.removeprefix("plan: ").split("; ") == [
        "joint needs 7,564 completions: 18 minutes at 7 a second",
        "long-texts needs 33,000 tokens: 8 hours at 1.1 a second",
        "all else 0 s",
        (
            "that is more than --budget 300 for a check, which ends all after 10 minutes: "
            "give --budget 36000, --detect 0.1, --reference URL2 or --draft MODEL"
        ),
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(400.0, "or --skip joint"), (400.0, "--detect 0.1"), (2000.0, "; 19 minutes in all")],
)
def test_the_plan_proposes_options_that_fit(seconds, words):
    found = {"joint": SLOW["joint"], "long-texts": Need(33_000, "tokens", 500.0)}
    assert words in planned(subject(), found, seconds)


def test_the_budget_is_that_of_each_check():
    """As of `spec-oracle audit`: what one check takes, another one does not lack."""
    one, ends = subject(), []
    for check in SERVER:
        if check in ("length", "logprobs"):
            result_of(check, one, Context(budget=50.0))
            ends.append(one.server.client.end)
    assert ends == [pytest.approx(time.monotonic() + 50.0, abs=5.0)] * 2
    assert ends[0] < ends[1]


def test_the_last_line_uses_the_numbers_of_the_plan():
    joint = check_result(Status.PASSED, "", how=How.SAMPLED, draws=7000)
    done = [type(joint)(**{**vars(joint), "name": "joint", "seconds": 1000.0})]
    assert taken(SLOW, done) == "plan: joint 7,000 of 7,564 completions, 17 minutes"


def test_an_audit_prints_its_plan_first_and_what_was_done_last():
    told = []
    skip = dict.fromkeys(["shapes", "streams", "batch", "long-texts"], "")
    found = audit_server(subject(detect=0.2), AuditOptions(budget=600.0, skip=skip), told.append)
    (plan,) = told
    assert plan.startswith("plan: joint needs ")
    assert "long-texts" not in plan
    assert found.subjects[0].remarks.notes[-1].startswith("plan: joint ")


def test_a_server_without_probabilities_is_planned_for():
    found = needs(subject(shape="silent"), 1e-6)
    assert set(found) == {"joint", "length", "streams", "batch"}
