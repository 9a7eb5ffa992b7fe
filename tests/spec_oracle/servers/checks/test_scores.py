"""Whole completions are scored in one request each where the server can, as by one-token requests."""

import math

import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.logprobs import wrong_scores
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.client.apis import SCORINGS
from spec_oracle.servers.contract import Ask
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


def known_along(stand_in, reference=None):
    """The distributions along three completions, and the requests that they took."""
    server = server_of(stand_in)
    reported = Distributions(server, reference and server_of(reference, prompts=["bc"]))
    _ = reported.noise
    completions = [
        (number, answer.tokens)
        for number in (0, 1, 1)
        for answer in server.complete([Ask(server.prompts[number], 64)])
    ]
    before = server.client.requests
    reported.fetch_along(completions)
    prefixes = [(number, tokens[:end]) for number, tokens in completions for end in range(1, len(tokens))]
    return reported, [reported.logs[prefix] for prefix in prefixes], server.client.requests - before


@pytest.mark.parametrize("scores", [scoring.name for scoring in SCORINGS])
def test_one_request_takes_the_place_of_one_for_each_token(scores):
    """With more tokens than are listed: the one that came is not shown for coming."""
    options = {"shape": "openai", "vocab": 32, "entropy": 3}
    _, expected, many = known_along(StandIn(**options))
    reported, found, few = known_along(StandIn(**options, scores=scores))
    assert reported.along == (reported, next(one for one in SCORINGS if one.name == scores))
    assert found == [pytest.approx(row) for row in expected]
    assert few < 20 < many


def test_scores_of_another_distribution_are_not_used():
    class Elsewhere(StandIn):
        def scored(self, prompt, listed):
            rows = super().scored(prompt, listed)
            return [row and {token: 2 * log for token, log in row.items()} for row in rows]

    assert known_along(Elsewhere(shape="openai", scores="echo"))[0].along[1] is None


@pytest.mark.parametrize(("size", "is_used"), [(0.0, True), (0.1, False)])
def test_a_reference_is_asked_where_it_agrees(size, is_used):
    """It is no reference where it serves another model, or another temperature of it."""
    reference = StandIn("wrong-rows", size=size, draft=False)
    reported, found, _ = known_along(StandIn(), reference)
    assert (reported.along[0] is not reported) == is_used
    assert found == known_along(StandIn())[1]


@pytest.mark.parametrize("answer", [(500, {}), (200, {"choices": [{"prompt_logprobs": [[0]]}]})])
def test_a_server_that_fails_to_score_goes_on(answer):
    class Fails(StandIn):
        def respond(self, path, body, name=""):
            is_score = body and ("prompt_logprobs" in body or "echo" in body)
            return answer if is_score else super().respond(path, body, name)

    assert known_along(Fails(shape="openai"))[0].along[1] is None


class ByDraft(StandIn):
    """Scores short prompts by the draft model."""

    def scored(self, prompt, listed):
        serves, self.serves = self.serves, "draft" if len(prompt) <= 12 else self.serves
        rows = super().scored(prompt, listed)
        self.serves = serves
        return rows


class AfterFilters(StandIn):
    """Lists log-probabilities after temperature and filters, scores of prompts before."""

    def shown(self, context, body):
        law = self.law(context, body)
        return {token: math.log(p) for token, p in enumerate(law) if p}


@pytest.mark.parametrize("scores", ["prompt_logprobs", "echo"])
@pytest.mark.parametrize(
    ("served", "sampling", "wrong"),
    [
        (StandIn, Sampling(), ""),
        (AfterFilters, Sampling(0.7, 4), ""),
        (AfterFilters, Sampling(1.5, 3), ""),
        (ByDraft, Sampling(), "of prompts of 4 and 12 tokens differ by up to "),
    ],
)
def test_scores_that_one_token_requests_contradict_are_named(served, sampling, wrong, scores):
    stand_in = served(shape="openai", scores=scores)
    server = server_of(stand_in, sampling, prompts=["bcdefgbcdefgfedcb"])
    found = wrong_scores(Distributions(server))
    assert wrong in found
    assert bool(found) == bool(wrong)
    if wrong:
        assert found.startswith(scores)
        assert "tokens agree" in found  # those of the whole prompt and of a completion
        checked = result_of("logprobs", ServerSubject("here", server), Context())
        assert checked.status is Status.FAILED
        assert wrong in checked.detail
