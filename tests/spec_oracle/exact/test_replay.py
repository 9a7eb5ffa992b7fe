"""Integration over injected uniforms finds boxes exactly and bounds what it cannot find."""

import numpy as np
import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.replay import replayed_law

TARGET = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
DRAFT = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])
PATH = [1, 0]
RESIDUALS = np.concatenate([np.maximum(TARGET[:2] - DRAFT, 0), TARGET[2:]])
RESIDUALS /= RESIDUALS.sum(axis=1, keepdims=True)


def kernel(uniforms):
    """Run the token rule in single precision, two accept uniforms and one for the token."""
    u = uniforms.astype(np.float32)
    q = DRAFT[[0, 1], PATH].astype(np.float32)
    p = TARGET[[0, 1], PATH].astype(np.float32)
    tau = np.cumprod(u[:, :2] * q < p, axis=1).sum(axis=1)
    token = (RESIDUALS.cumsum(axis=1)[tau] <= u[:, 2:]).sum(axis=1).clip(max=2)
    return np.stack([tau, token], axis=1)


def test_law_of_a_kernel():
    accepted = [0.4, 0.6 * 0.75, 0.6 * 0.25]
    expected = {(t, v): accepted[t] * RESIDUALS[t, v] for t in range(3) for v in range(3)}
    law = replayed_law(kernel, 3)
    assert law.unresolved < 1e-6
    assert law.error_bound < 1e-4
    for label, probability in expected.items():
        assert law.probabilities.get(label, 0.0) == pytest.approx(probability, abs=2e-7)


def test_oblique_boundaries_are_bounded():
    law = replayed_law(lambda u: u[:, 0] * u[:, 1] < 0.3, 2, max_evaluations=300_000, num_probes=20_000)
    error = abs(law.probabilities[(1,)] - (0.3 - 0.3 * np.log(0.3)))
    assert error < law.unresolved < 1e-2


def test_probes_find_a_region_between_the_corners():
    law = replayed_law(lambda u: ((u > 0.501) & (u < 0.541)).all(axis=1), 2)
    assert law.probabilities[(1,)] == pytest.approx(0.0016, abs=1e-6)


def test_a_label_at_zero_only_has_no_weight():
    law = replayed_law(lambda u: u[:, 0] == 0, 1)
    assert law.probabilities[(0,)] == pytest.approx(1, abs=1e-6)


def test_law_that_never_settles_says_so():
    law = replayed_law(lambda u: (u[:, 0] * 1e9) % 2 < 1, 1, max_evaluations=20_000)
    assert law.error_bound > 0.5


def test_dimensions_are_checked():
    with pytest.raises(InvalidInputError, match="dimensions"):
        replayed_law(kernel, 9)
