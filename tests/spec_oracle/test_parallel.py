"""Processes side by side change nothing but the time."""

import math

import pytest

from spec_oracle.parallel import side_by_side


@pytest.mark.parametrize("jobs", [1, 2])
def test_order_is_kept(jobs):
    assert list(side_by_side(math.sqrt, [9.0, 4.0, 1.0], jobs)) == [3, 2, 1]
