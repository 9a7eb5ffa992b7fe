"""What a decoding run says about itself."""

import numpy as np
import pytest

from spec_oracle.language_models.decoding import Decoded


def test_means_weigh_every_request_of_every_call_alike():
    lengths, expected = map(np.array, ([0, 2], [1])), map(np.array, ([0.5, 1.5], [0.4]))
    decoded = Decoded(((), ()), (), tuple(lengths), tuple(expected))
    assert decoded.accepted_lengths.tolist() == [0, 2, 1]
    assert decoded.block_efficiency == 2
    assert decoded.conditional_block_efficiency == pytest.approx(1.8)


def test_no_expectations_no_conditional_figure():
    assert np.isnan(Decoded(((),), (), (np.array([1]),)).conditional_block_efficiency)
