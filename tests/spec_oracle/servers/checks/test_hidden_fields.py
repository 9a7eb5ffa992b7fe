"""Fields whose effect depends on which tokens were generated: one-token requests do not show it."""

from collections import Counter
from functools import partial

import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import END, PENALTIES, StandIn, server_of


class OfGenerated(StandIn):
    """Penalties, and a least number of tokens, that count generated tokens only, as those of vLLM."""

    def __init__(self, defect="", **options):
        super().__init__(defect, shape="llama.cpp", **options)
        self.start = 0

    def respond(self, path, body, name=""):
        if body and isinstance(body.get("prompt"), list) and body["prompt"]:
            self.start = len(body["prompt"]) if isinstance(body["prompt"][0], int) else 0
        return super().respond(path, body, name)

    def known(self, body):
        return None

    def law(self, context, body, model=""):
        """Return the law after a context, whose generated tokens begin at ``start``."""
        generated = context[self.start :]
        biases = Counter(dict(body.get("logit_bias") or {}))
        biases[str(END)] -= 99 * (len(generated) < body.get("min_tokens", 0))
        for token, count in Counter(generated).items():
            biases[str(token)] -= count * body.get("frequency_penalty", 0) + body.get("presence_penalty", 0)
        rest = {key: value for key, value in body.items() if key not in (*PENALTIES, "min_tokens")}
        return super().law(context, {**rest, "logit_bias": dict(sorted(biases.items()))}, model)


def subject_of(served, fields, reference=None):
    sampling = Sampling(top_k=3, fields=fields)
    server, other = (one and server_of(one, sampling, prompts=["bc"]) for one in (served, reference))
    return ServerSubject("here", server, ServerPlan(detect=0.1), other)


class OfItsOwn(OfGenerated):
    """Penalizes generated tokens where a request does not say how much."""

    def law(self, context, body, model=""):
        return super().law(context, {"presence_penalty": 1.5, **body}, model)


@pytest.mark.parametrize("shape", ["llama.cpp", "openai"])
def test_a_penalty_of_the_server_s_own_is_switched_off(shape):
    served = OfItsOwn()
    served.shape = shape
    found = result_of("joint", subject_of(served, {}), Context())
    assert found.status is Status.PASSED, found.detail


HIDDEN = ({"presence_penalty": 1.5}, {"frequency_penalty": 1.0}, {"min_tokens": 3})


@pytest.mark.parametrize("fields", HIDDEN, ids=str)
def test_a_right_server_is_not_called_lossy_under_a_penalty_of_generated_tokens(fields):
    subject = subject_of(OfGenerated(), fields)
    assert result_of("plain-law", subject, Context()).status is Status.PASSED
    found = result_of("joint", subject, Context())
    assert found.status is Status.INCONCLUSIVE, found.detail
    (name,) = fields
    assert f"one-token requests do not show what `{name}` does to generated tokens" in found.detail
    assert found.remarks.do.startswith("give --reference")
    for check in ("shapes", "long-texts", "logprobs"):
        assert result_of(check, subject, Context()).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("defect", ["", "skips:presence_penalty"])
def test_whole_completions_are_compared_with_those_of_a_reference(defect):
    reference = OfGenerated(draft=False, entropy=9)
    subject = subject_of(OfGenerated(defect), {"presence_penalty": 1.5}, reference)
    found = result_of("joint", subject, Context())
    assert found.status is (Status.FAILED if defect else Status.PASSED), found.detail


@pytest.mark.parametrize(
    ("served", "fields"),
    [
        (partial(StandIn, shape="llama.cpp"), {"presence_penalty": 1.5}),
        (OfGenerated, {"presence_penalty": 0.0, "ignore_eos": False}),
        (OfGenerated, {"min_tokens": 4}),
    ],
    ids=["of the prompt too", "off", "as many as a completion has"],
)
def test_fields_that_one_token_requests_show_are_judged_by_these(served, fields):
    found = result_of("joint", subject_of(served(), fields), Context())
    assert found.status is Status.PASSED, found.detail
