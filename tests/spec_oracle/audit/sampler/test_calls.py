"""Calls in a row: engines write new rows into the same arrays, which are known by their contents only."""

import numpy as np
import pytest

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Status
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import as_sampler
from tests.subjects import sampler

TOKEN = as_sampler(verifiers.get("token"))


def caching(key):
    """Return the token rule, which keeps the target's rows of each array that it knows by ``key``."""
    known = {}

    def verify(tokens, draft, target, generator):
        rows = known.setdefault(key(target), target + 0)
        return TOKEN(tokens, draft, rows if rows.shape == target.shape else target, generator)

    return verify


def calls_of(function, array):
    return result_of("calls", sampler(function, array), Context())


@pytest.mark.usefixtures("few_equal_requests")
@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(
    ("key", "array"),
    [
        (lambda target: (id(target), target.shape), "numpy"),
        (lambda target: target.ctypes.data, "numpy"),
        (lambda target: (target.data_ptr(), target.shape), "torch"),
    ],
    ids=["identity", "address", "data_ptr"],
)
def test_rows_that_are_kept_by_the_place_of_their_array_are_found(key, array):
    found = calls_of(caching(key), array)
    assert found.status is Status.FAILED, found.detail


@pytest.mark.usefixtures("few_equal_requests")
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_rows_that_are_kept_by_their_contents_are_right(array):
    found = calls_of(caching(lambda target: np.asarray(target).tobytes()), array)
    assert found.status is Status.PASSED, found.detail
