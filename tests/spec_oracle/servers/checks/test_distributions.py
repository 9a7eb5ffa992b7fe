"""Rows: each reading of log-probabilities gives the law of a sampler that works so, or gives none."""

import math

import numpy as np
import pytest

from spec_oracle.audit.logprobs import READINGS, Distribution
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.distributions import FLOAT32_LOG, rounding

RAW = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.06, "e": 0.04}
LOGS = {token: math.log(p) for token, p in RAW.items()}


def row(reading, sampling, *, logs=LOGS, listed=20, error=FLOAT32_LOG):
    return READINGS[reading](logs, sampling, listed, error)


def law(found):
    return dict(zip(found.tokens, found.probabilities, strict=True))


def test_probabilities_as_sampled_are_taken_as_they_are():
    found = row("after sampling filters", Sampling(temperature=0.5, top_k=2))
    assert law(found) == pytest.approx(RAW)
    assert found.other == 0


def test_a_list_as_long_as_was_asked_for_leaves_the_rest_open():
    found = row("after sampling filters", Sampling(), logs={t: LOGS[t] for t in "abc"}, listed=3)
    assert found.other == pytest.approx(0.1)
    assert 0 < found.other_error < 1e-4


def test_a_shorter_list_that_misses_mass_is_not_as_sampled():
    assert row("after sampling filters", Sampling(), logs={t: LOGS[t] for t in "abc"}) is None


def test_top_k_and_temperature_of_a_raw_row():
    found = row("before sampling filters", Sampling(temperature=0.5, top_k=3), listed=5)
    squares = {"a": 16, "b": 9, "c": 4}
    assert law(found) == pytest.approx({token: square / 29 for token, square in squares.items()})
    assert found.other == 0


def test_top_p_is_of_the_row_after_temperature():
    """Of (4, 3, 2, 0.6, 0.4) / 10 a half takes two tokens; of their squares 16, 9, 4, ... it takes one."""
    assert len(row("before sampling filters", Sampling(top_p=0.5)).tokens) == 2
    assert len(row("before sampling filters", Sampling(temperature=0.5, top_p=0.5)).tokens) == 1
    assert row("before sampling filters", Sampling(top_p=0.5)).probabilities.sum() == pytest.approx(1)


def test_filters_that_are_ignored():
    found = row("before sampling filters, which the server ignores", Sampling(top_k=2), listed=5)
    assert law(found) == pytest.approx(RAW)


@pytest.mark.parametrize(
    ("sampling", "listed"),
    [
        (Sampling(top_k=5), 5),  # the filter reaches to the end of the list
        (Sampling(temperature=0.7), 5),  # no normaliser without the rest
        (Sampling(top_p=0.9999), 5),  # the nucleus may go on
        (Sampling(temperature=0.7, top_p=0.5), 5),
    ],
)
def test_a_list_that_is_too_short_gives_no_law(sampling, listed):
    logs = {token: log - 0.01 for token, log in LOGS.items()}  # some mass is not listed
    assert row("before sampling filters", sampling, logs=logs, listed=listed) is None


def test_ties_at_the_edge_of_a_filter_leave_the_row_unknown():
    tied = {"a": math.log(0.5), "b": math.log(0.25), "c": math.log(0.25)}
    assert row("before sampling filters", Sampling(top_k=2), logs=tied) is None
    assert row("before sampling filters", Sampling(top_p=0.75), logs=tied) is None


def test_errors_grow_with_cold_and_with_normalisation():
    cold = row("before sampling filters", Sampling(temperature=0.5, top_k=2), error=1e-3)
    assert cold.slack == pytest.approx(4e-3)
    assert row("after sampling filters", Sampling(), listed=5, error=1e-3).slack == pytest.approx(1e-3)


def test_the_law_is_within_its_slack_when_log_probabilities_are_rounded():
    rng, sampling = np.random.default_rng(1), Sampling(temperature=0.8, top_k=4)
    for _ in range(200):
        exact = dict(enumerate(np.log(np.sort(rng.dirichlet(np.ones(8)))[::-1] + 1e-3)))
        rounded = {token: round(log, 2) for token, log in exact.items()}
        error = rounding(rounded.values())
        assert error == 0.005
        true = row("before sampling filters", sampling, logs=exact, error=1e-9)
        found = row("before sampling filters", sampling, logs=rounded, error=error)
        if true is not None and found is not None and found.tokens == true.tokens:
            assert np.all(abs(np.log(found.probabilities / true.probabilities)) <= found.slack)


def test_rounding_is_seen():
    assert rounding([-1.25, -0.5]) == pytest.approx(0.005)
    assert rounding([-1.0, -2.0]) == pytest.approx(0.5)
    assert rounding([-1.2345678, -0.5]) == FLOAT32_LOG


def test_a_row_finds_its_tokens():
    found = Distribution(("a", 7), np.array([0.5, 0.5]), 0.0, 0.0)
    assert (found.index(7), found.index("b")) == (1, -1)
