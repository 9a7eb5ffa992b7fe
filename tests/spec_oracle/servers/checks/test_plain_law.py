"""Lists of log-probabilities that a server cuts short are no reason to call it wrong."""

import math

import numpy as np
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import READINGS, Distribution
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.plain_law import tokens_after
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


class ListsTwo(StandIn):
    """Lists two log-probabilities, however many are asked for."""

    def shown(self, context, body):
        return dict([*super().shown(context, body).items()][:2])


@pytest.mark.parametrize(
    ("shape", "top_k", "words"),
    [
        ("llama.cpp", 3, "no defect"),  # after filters: the third token has the rest
        ("openai", 3, "it lists 2 of 3; ask for --top-k 2"),  # before them the rest is not known
        ("openai", 2, "no defect"),
        ("openai", 0, "no defect"),
    ],
)
def test_a_server_that_lists_fewer_log_probabilities_than_asked_is_not_called_wrong(shape, top_k, words):
    server = server_of(ListsTwo(shape=shape), top_k=top_k)
    found = result_of("plain-law", ServerSubject("here", server, ServerPlan(detect=0.2)), Context())
    assert found.status is (Status.PASSED if words == "no defect" else Status.INCONCLUSIVE)
    assert words in found.detail


class ShowsProbabilities(StandIn):
    """Reports p in the place of log p, as llama.cpp did (https://github.com/ggml-org/llama.cpp/pull/10783)."""

    def shown(self, context, body):
        return {token: math.exp(log) for token, log in super().shown(context, body).items()}


def test_probabilities_in_the_place_of_their_logarithms_are_named():
    server = server_of(ShowsProbabilities(shape="openai"), top_k=3)
    found = result_of("plain-law", ServerSubject("here", server, ServerPlan(detect=0.2)), Context())
    assert found.status is Status.FAILED
    assert "as a log-probability, which is at most 0" in found.detail
    assert found.remarks.do.startswith("report logarithms")


@pytest.mark.parametrize("shape", ["llama.cpp", "openai"])
def test_a_wrong_first_guess_of_what_is_reported_is_corrected(shape):
    """The few samples that guess it may be wrong: at temperature 0.7 those of one audit in 20 were."""
    server = server_of(StandIn(shape=shape), Sampling(0.7, 3))
    right, wrong = list(READINGS)[:2][:: -1 if shape == "openai" else 1]
    subject = ServerSubject("here", server, ServerPlan(detect=0.1))
    subject.distributions.reading = wrong
    found = result_of("plain-law", subject, Context())
    assert (found.status, subject.distributions.reading) == (Status.PASSED, right)


@pytest.mark.parametrize("is_noisy", [False, True])
def test_a_token_that_a_filter_rules_out_is_no_proof_where_equal_requests_differ(is_noisy):
    law = Distribution((3, 5), np.array([0.7, 0.3]), 0.0, 1e-3)
    cells = tokens_after({(0, ()): law}, is_noisy=is_noisy)
    assert (cells.law[cells.of([((0, ()), 8)])] > 0) == is_noisy


@pytest.mark.parametrize(("differ", "noise"), [(0.005, 0.005), (0.1, 0.0)])
def test_what_completions_differ_by_is_noise_where_it_is_small(differ, noise):
    """Several tokens are verified at once, and computed in another order than a single one."""

    class Apart(StandIn):
        def shown(self, context, body):
            many = body.get("n_predict", 1) > 1
            return {token: log - differ * many for token, log in super().shown(context, body).items()}

    assert Distributions(server_of(Apart(), top_k=3)).noise == pytest.approx(noise)
