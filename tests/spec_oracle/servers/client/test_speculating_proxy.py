"""Defects of verification are found on a real model, by a proxy that speculates with two servers' rows."""

import pytest

from lab.benchmarks.speculating_proxy import (
    ACCEPTS_ALL,
    CORRECTS_FROM_P,
    RIGHT,
    RULES,
    SECONDS,
    Proxy,
    audited,
    smollm2_servers,
)
from spec_oracle.audit import Status, SubjectVerdict
from spec_oracle.audit.context import Context
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.client.server import connect, same_prompts
from tests.efforts import set_effort
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import InProcess, StandIn, server_of
from tests.strategies import by_day


@pytest.mark.parametrize("rule", by_day(RULES, {RIGHT, ACCEPTS_ALL}))
def test_a_proxy_of_toy_servers_is_as_its_rule(rule, monkeypatch):
    set_effort(monkeypatch, SERVER_DISTANCES_TV=0.2)
    target, draft = InProcess(StandIn(draft=False)), InProcess(StandIn(draft=False, serves="draft"))
    server = server_of(Proxy(target, draft, rule))
    drafts = same_prompts(connect(draft, Sampling(), prompts=["bc", "def"]), server)
    subject = ServerSubject(rule, server, ServerPlan(detect=0.05), draft=drafts)
    found = result_of("long-texts", subject, Context())
    assert found.status is (Status.PASSED if rule == RIGHT else Status.FAILED), found.detail


@pytest.fixture(scope="module")
def served():
    with smollm2_servers() as found:
        yield found


@pytest.mark.servers
@pytest.mark.lm
@pytest.mark.parametrize("rule", RULES)
def test_defects_on_smollm2_are_found(rule, served):
    """An audit ends with the tokens that show a defect: three minutes on two cores, longer on busy ones."""
    (found,) = audited(rule, *served, seconds=SECONDS if rule == RIGHT else 10 * SECONDS).subjects
    if rule == RIGHT:
        assert found.verdict is not SubjectVerdict.LOSSY
    else:
        assert rule in (ACCEPTS_ALL, CORRECTS_FROM_P)
        assert found.verdict is SubjectVerdict.LOSSY, found.checks
    assert [check.name for check in found.checks if check.status is Status.FAILED] == (
        [] if rule == RIGHT else ["long-texts"]
    )
