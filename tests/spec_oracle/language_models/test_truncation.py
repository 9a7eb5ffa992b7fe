"""Truncated laws against their definition by sorting."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spec_oracle.errors import InvalidInputError
from spec_oracle.language_models import Truncation

LOGITS = st.lists(st.integers(-3, 3), min_size=1, max_size=8)  # few values, so that ties are common


def kept_by_definition(logits, top_k, top_p):
    """Return the kept tokens: likeliest first, ties by number, k of them, until their mass reaches top_p."""
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[: top_k or None]
    mass = np.exp([logits[token] for token in order])
    before = (np.cumsum(mass) - mass) / mass.sum()
    return {token for token, start in zip(order, before, strict=True) if start < top_p}


@given(LOGITS, st.integers(0, 9), st.sampled_from([0.11, 0.37, 0.71, 0.93, 1.0]))
def test_the_support_and_the_ratios_are_those_of_the_definition(logits, top_k, top_p):
    law = Truncation(top_k=top_k, top_p=top_p).probabilities(torch.tensor(logits, dtype=torch.float32))
    kept = kept_by_definition(logits, top_k, top_p)
    assert set(law.nonzero()[:, 0].tolist()) == kept
    weights = np.array([np.exp(logit) if token in kept else 0 for token, logit in enumerate(logits)])
    np.testing.assert_allclose(law.numpy(), weights / weights.sum(), rtol=1e-12)


def test_every_row_is_cut_by_itself():
    logits = torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    law = Truncation(top_k=1).probabilities(logits)
    assert law.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.5}])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        Truncation(**wrong)
