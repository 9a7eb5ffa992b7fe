"""The plan: what large checks need of their budgets, and how long they take."""

import time

import pytest

from spec_oracle.audit import AuditOptions
from spec_oracle.audit.context import Context
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import SERVER, Need, audit_server, needs, planned
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of

SLOW = {"joint": Need(7564, "completions", 7.0), "long-texts": Need(33_000, "tokens", 1.1)}


def subject(detect=0.05, **options):
    server = server_of(StandIn(**options), top_k=3, prompts=["bc"])
    return ServerSubject("here", server, ServerPlan(detect=detect))


@pytest.mark.parametrize(
    ("budget", "end"),
    [
        (40_000.0, []),
        (
            300.0,
            ["that is more than --budget 300 for a check: give --budget 36000 or a larger --detect"],
        ),
    ],
)
def test_the_plan_names_large_checks_and_what_they_take(budget, end):
    assert planned(SLOW, budget).removeprefix("plan: ").split("; ") == [
        "joint needs 7,564 completions: 18 minutes at 7 a second",
        "long-texts needs 33,000 tokens: 8 hours at 1.1 a second",
        *end,
    ]


def test_the_budget_is_that_of_each_check():
    """As of `spec-oracle audit`: what one check takes, another one does not lack."""
    one, ends = subject(), []
    for check in SERVER:
        if check in ("length", "logprobs"):
            result_of(check, one, Context(budget=50.0))
            ends.append(one.server.client.end)
    assert ends == [pytest.approx(time.monotonic() + 50.0, abs=5.0)] * 2
    assert ends[0] < ends[1]


def test_an_audit_prints_its_plan_first():
    lines = []
    skip = dict.fromkeys(["shapes", "streams", "batch", "long-texts"], "")
    audit_server(subject(detect=0.2), AuditOptions(budget=600.0, skip=skip), lines.append)
    (plan,) = lines
    assert plan.startswith("plan: joint needs ")
    assert "long-texts" not in plan


def test_a_server_without_probabilities_is_planned_for():
    found = needs(subject(shape="silent"), 1e-6)
    assert set(found) == {"joint"}
