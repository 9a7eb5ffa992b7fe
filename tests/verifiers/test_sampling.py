"""Sampling sources: boundaries, support, reproducibility, and the law they draw from."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from verifiers import InvalidInputError, numpy_decisions, replayed_decisions, torch_decisions
from verifiers.errors import ContractError
from verifiers.sampling import invert_cdf

JUST_BELOW_ONE = np.nextafter(1.0, 0.0)


@pytest.mark.parametrize("uniform", [0.0, 0.5, JUST_BELOW_ONE, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inversion_never_returns_an_index_of_weight_zero(uniform, dtype):
    rng = np.random.default_rng(1)
    weights = rng.random((500, 7)).astype(dtype)
    weights[rng.random(weights.shape) < 0.5] = 0
    weights[weights.sum(axis=1) == 0, 3] = 1e-30
    index = invert_cdf(weights, np.full(500, uniform))
    assert (weights[np.arange(500), index] > 0).all()


def test_inversion_is_the_inverse_of_the_cumulative_sum():
    weights = np.array([[1.0, 0.0, 2.0, 1.0]])
    for uniform, index in [(0.0, 0), (0.2499, 0), (0.25, 2), (0.7499, 2), (0.75, 3), (0.9999, 3)]:
        assert invert_cdf(weights, np.array([uniform])).tolist() == [index]


def test_torch_inverts_as_numpy_does():
    rng = np.random.default_rng(2)
    weights, uniform = rng.random((200, 9)), rng.random(200)
    expected = invert_cdf(weights, uniform)
    assert invert_cdf(torch.from_numpy(weights), torch.from_numpy(uniform)).tolist() == expected.tolist()


@pytest.mark.parametrize("source", ["numpy", "torch"])
def test_certain_decisions_are_certain(source):
    if source == "numpy":
        decisions, chances = numpy_decisions(np.random.default_rng(3)), np.array([0.0, 1.0] * 5000)
    else:
        decisions = torch_decisions(torch.Generator().manual_seed(3))
        chances = torch.tensor([0.0, 1.0] * 5000)
    assert np.asarray(decisions.bernoulli(chances)).tolist() == [False, True] * 5000


@pytest.mark.parametrize("source", ["numpy", "torch"])
def test_categorical_draws_follow_the_weights(source):
    # One chi-square test a source at 1e-9: two tests, false-alarm rate 2e-9, none in fact: seeds are fixed.
    weights = np.array([3.0, 0.0, 5.0, 2.0])
    if source == "numpy":
        drawn = numpy_decisions(np.random.default_rng(4)).categorical(np.tile(weights, (100_000, 1)))
    else:
        generator = torch.Generator().manual_seed(4)
        drawn = torch_decisions(generator).categorical(torch.tensor(weights).repeat(100_000, 1)).numpy()
    counts = np.bincount(drawn, minlength=4)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2, 3]], 100_000 * weights[[0, 2, 3]] / 10).pvalue > 1e-9


def test_replayed_decisions_read_each_request_from_its_own_row():
    decisions = replayed_decisions(np.array([[0.1, 0.9, 0.3], [0.8, 0.2, 0.6]]))
    assert decisions.bernoulli(np.array([0.5, 0.5])).tolist() == [True, False]
    assert decisions.bernoulli(np.full((2, 2), 0.5)).tolist() == [[False, True], [True, False]]
    with pytest.raises(InvalidInputError, match="uniforms: 3 columns"):
        decisions.bernoulli(np.array([0.5, 0.5]))
    with pytest.raises(ContractError, match="verify decided for 1 request, the batch has 2: decide for all"):
        decisions.bernoulli(np.array([0.5]))
