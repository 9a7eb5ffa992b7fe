"""The suites of the kinds of subjects: every check runs, and a kind has the checks that it should have."""

import math

import pytest

import verifiers
from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.checks import CHECKS, run_check
from spec_oracle.audit.context import Context, Inputs, ShapeLimits
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects import of_object
from spec_oracle.audit.suite import SUITES
from spec_oracle.contracts import as_sampler
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import SERVER
from tests.spec_oracle.audit.engine.engines import Stepwise, Together
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of
from tests.subjects import sampler


class Everything(Stepwise, Together):
    """An engine with all that an engine may have; with two drafts a call it has thirty times as many runs."""

    draft_length = 1

    def reported(self, prompt, max_new_tokens):
        tokens = self.generate(prompt, max_new_tokens)
        rows = [self.next_token_probs([*prompt, *tokens[:place]]) for place in range(len(tokens))]
        return tokens, [math.log(row[token]) for row, token in zip(rows, tokens, strict=True)], None


OF_CODE = {"joint", "shapes", "length", "calls", "streams", "batch", "bad-input", "inputs-kept", "scale"}
NAMES = {
    "rule": OF_CODE - {"streams"},
    "sampler": OF_CODE,
    "engine": {"joint", "length", "calls", "long-texts", "logprobs", "draft-law", "streams", "batch"},
    "server": {
        *("plain-law", "joint", "model", "shapes", "length", "long-texts", "logprobs", "streams", "batch")
    },
}
ALL = {**SUITES, "server": SERVER}
SUBJECTS = {
    "rule": of_object("mine", verifiers.get("univer")),
    "sampler": sampler(as_sampler(verifiers.get("token"))),
    "engine": of_object("mine", Everything),
    "server": ServerSubject("mine", server_of(StandIn(), top_k=3, prompts=["bc"]), ServerPlan(detect=0.3)),
}


@pytest.mark.parametrize("kind", ALL)
def test_a_suite_has_its_checks_in_the_order_of_the_run(kind):
    names = [*ALL[kind]]
    assert set(names) == NAMES[kind]
    assert names == [name for name in CHECKS if name in NAMES[kind]]
    assert SUBJECTS[kind].kind == kind


def test_shares_of_the_error_rate_add_up_to_one_at_most():
    assert sum(check.share for check in CHECKS.values()) <= 1


def test_a_check_of_another_kind_says_so():
    result = run_check(CHECKS["plain-law"], ALL["sampler"], SUBJECTS["sampler"], Context())
    assert (result.status, result.detail) == (Status.NOT_APPLICABLE, "not a check of this kind: sampler")


@pytest.mark.parametrize(("named", "is_shown"), [({"logprobs", "inputs-kept"}, False), ({"logprobs"}, True)])
def test_a_check_of_another_kind_is_in_the_report_where_no_other_is_named(named, is_shown):
    options = AuditOptions(vocab_size=2, draft_length=1, budget=1, checks=named)
    (found,) = audit(SUBJECTS["sampler"], options=options).subjects
    assert ("logprobs" in {check.name for check in found.checks}) is is_shown


@pytest.mark.usefixtures("less_effort", "work_clock")
@pytest.mark.parametrize(
    ("kind", "check"), [(kind, check) for kind, suite in ALL.items() for check in suite], ids=str
)
def test_a_check_runs_or_says_why_not(kind, check):
    # A server's budget is that of all its checks together, from the first one on.
    budget = {"server": 600.0, "engine": 1.0}.get(kind, 20.0)
    prompts = {"engine": ((0,),)}.get(kind, ())  # the others have no prompts, or those of their server
    context = Context(budget=budget, inputs=Inputs(2, 1, prompts=prompts), shapes=ShapeLimits(most=2))
    result = run_check(CHECKS[check], ALL[kind], SUBJECTS[kind], context)
    assert result.name == check
    assert result.detail
    if result.status is Status.NOT_APPLICABLE:
        assert {"length": "rule", "model": "--reference"}[check] in result.detail
    else:
        assert result.status is Status.PASSED, result.detail
        assert result.how is not None
