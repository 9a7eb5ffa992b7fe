"""The table of checks and kinds of subjects: every cell runs, or gives its reason."""

import math

import pytest

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Status
from spec_oracle.audit.rule.subject import VerifierSubject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subjects import Subject, of_object
from spec_oracle.audit.table import CHECKS, KINDS
from spec_oracle.contracts import SamplerCode, as_sampler
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import Plan, ServerSubject
from spec_oracle.servers.client.server import connect
from tests.spec_oracle.audit.engine.engines import Stepwise, Together
from tests.spec_oracle.servers.client.stand_in import InProcess, StandIn


class Everything(Stepwise, Together):
    """An engine with all that an engine may have."""

    def reported(self, prompt, max_new_tokens):
        tokens = self.generate(prompt, max_new_tokens)
        rows = [self.next_token_probs([*prompt, *tokens[:place]]) for place in range(len(tokens))]
        return tokens, [math.log(row[token]) for row, token in zip(rows, tokens, strict=True)], None


OF_CODE = {"joint", "shapes", "length", "calls", "streams", "batch", "bad-input", "inputs-kept", "scale"}
RUNS = {
    "verifier": OF_CODE - {"streams"},
    "tree": OF_CODE - {"streams"},
    "sampler": OF_CODE,
    "engine": {"joint", "length", "calls", "long-texts", "logprobs", "draft-law", "streams", "batch"},
    "server": {
        *("plain-law", "joint", "model", "shapes", "length", "long-texts", "logprobs", "streams", "batch")
    },
}
"""The cells that are no dash."""

SUBJECTS = {
    "verifier": VerifierSubject("mine", verifiers.get("token")),
    "tree": of_object("mine", verifiers.tree_rule("univer")),
    "sampler": SamplerSubject("mine", SamplerCode(as_sampler(verifiers.get("token")))),
    "engine": of_object("mine", Everything),
    "server": ServerSubject(
        "mine", connect(InProcess(StandIn()), Sampling(top_k=3), prompts=["bc"]), Plan(detect=0.1)
    ),
}


def test_every_kind_is_in_the_table():
    assert RUNS.keys() == set(KINDS) == {kind.kind for kind in Subject.__args__}


def test_shares_of_the_error_rate_come_to_one_at_most():
    assert sum(check.share for check in CHECKS.values()) <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_cell_is_a_function_or_a_reason(check, kind):
    answer = check.answer(kind)
    assert answer
    assert callable(answer) == (check.name in RUNS[kind])


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_cell_runs_or_says_why_not(check, kind):
    # A server's budget is that of all its checks together, from the first one on.
    budget = 600.0 if kind == "server" else 20.0
    result = check.outcome(
        SUBJECTS[kind], Context(vocab_size=2, draft_length=1, budget=budget, most_shapes=2)
    )
    assert result.name == check.name
    assert result.detail
    if check.name not in RUNS[kind]:
        assert result.status is Status.NOT_APPLICABLE
    elif result.status is Status.NOT_APPLICABLE:
        assert {"length": "rule", "model": "--reference"}[check.name] in result.detail
    else:
        assert result.status is Status.PASSED, result.detail
        assert result.how is not None
