"""The error rate of a run: split evenly, never beyond what there is."""

import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import DEFAULT_ALPHA, split


@pytest.mark.parametrize("tests", [1, 3, 1000])
def test_the_parts_add_up_to_the_rate(tests):
    assert tests * split(DEFAULT_ALPHA, tests) == pytest.approx(DEFAULT_ALPHA, rel=1e-12)


def test_shares_that_cannot_be_split_are_refused():
    with pytest.raises(InvalidInputError, match="tests: expected at least 1, got 0"):
        split(0.1, 0)
    with pytest.raises(InvalidInputError, match="alpha"):
        split(0.0, 2)
