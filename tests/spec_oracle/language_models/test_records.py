"""What a decoding run says about itself."""

import numpy as np
import pytest

from spec_oracle.language_models.decoding import Call, Decoded


def call(lengths, expected=None):
    values = None if expected is None else np.array(expected)
    return Call(np.arange(len(lengths)), np.array(lengths), values)


def test_means_weigh_every_request_of_every_call_alike():
    decoded = Decoded(((), ()), (call([0, 2], [0.5, 1.5]), call([1], [0.4])))
    assert decoded.accepted_lengths.tolist() == [0, 2, 1]
    assert decoded.block_efficiency == 2
    assert decoded.conditional_block_efficiency == pytest.approx(1.8)


def test_no_expectations_no_conditional_figure():
    assert np.isnan(Decoded(((),), (call([1]),)).conditional_block_efficiency)
