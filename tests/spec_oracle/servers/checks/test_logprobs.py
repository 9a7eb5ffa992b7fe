"""Log-probabilities of completions are those of one-token requests, or it is said of what they are."""

import math

import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import difference
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


def outcome(*, sampling=None, **stand_in):
    server = server_of(StandIn(**stand_in), sampling or Sampling(0.7, 5))
    return result_of("logprobs", ServerSubject("here", server, ServerPlan()), Context())


@pytest.mark.parametrize("shape", ["llama.cpp", "openai"])
@pytest.mark.parametrize("more", [{}, {"digits": 3}, {"defect": "noisy-rows", "size": 0.01}], ids=str)
@pytest.mark.parametrize("entropy", range(3))
def test_right_ones_pass(shape, more, entropy):
    found = outcome(shape=shape, entropy=entropy, **more)
    assert found.status is Status.PASSED, found.detail
    assert "up to " in found.detail


@pytest.mark.parametrize("shape", ["llama.cpp", "openai"])
@pytest.mark.parametrize(
    ("defect", "words"),
    [
        ("missing", "1 log-probabilities: they are missing from token 2 on"),
        ("constant", "they are constant"),
        ("mode", "temperature and filters, one-token requests report those "),
        ("shifted", "they are those of the previous token's place"),
        ("residual", "they are those of a residual"),
        ("rounded", "they are rounded to 1 digits"),
        ("behind", "the last are of tokens after its end"),
    ],
)
def test_wrong_log_probabilities_are_found_and_named(shape, defect, words):
    """Six completions decide at most; the one that ends early shows what is after its end."""
    sampling = Sampling(top_k=7) if defect == "behind" else None  # one that leaves the end of completions in
    found = outcome(shape=shape, defect=f"logprobs-{defect}", sampling=sampling)
    assert found.status is Status.FAILED
    assert words in found.detail
    assert found.measured.draws <= 6


def test_the_mode_is_named_the_right_way_round():
    for shape, reported in (("llama.cpp", "before"), ("openai", "after")):
        found = outcome(shape=shape, defect="logprobs-mode")
        assert f"they are those {reported} temperature and filters" in found.detail


def test_noise_that_hides_half_a_nat_is_no_pass():
    found = outcome(defect="noisy-rows", size=0.2)
    assert found.status is Status.INCONCLUSIVE
    assert "try one slot" in found.detail


def test_a_server_that_reports_none_is_not_asked():
    assert outcome(shape="silent").status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({1: -0.5, 2: -1.0}, {1: -0.5, 2: -1.25}, 0.25),
        ({1: -0.5, 2: -9.0}, {1: -0.5, 2: -8.0}, 0.0),  # rare tokens do not count
        ({1: -0.5, 2: -2.0, 3: -2.5}, {1: -0.5, 2: -2.0, 4: -2.5}, 0.0),  # 3 and 4 may both be there
        ({1: -0.5, 2: -2.0, 3: -1.0}, {1: -0.5, 2: -2.0, 4: -3.0}, 1.0),
        ({1: -0.5, 2: -2.0}, {1: -0.5}, 0.0),  # nothing is known of 2
        ({1: -0.5}, {}, 0.0),
    ],
)
def test_only_tokens_that_both_rows_list_are_compared(first, second, expected):
    assert difference(first, second) == pytest.approx(expected)
    assert difference(second, first) == pytest.approx(expected)


def test_a_token_that_cannot_be_is_no_small_difference():
    assert math.isinf(difference({1: -0.5}, {1: -math.inf}))
