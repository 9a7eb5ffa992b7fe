"""Requests that are verified one after the other make a batch of the sampler contract."""

import numpy as np
import pytest

from spec_oracle.contracts.one_by_one import one_by_one


def emitted(tokens, draft, target, given):
    """Return one token more of the draft for each request."""
    assert draft.shape == (2, 3)
    assert target.shape == (3, 3)
    return [*tokens[: next(given)], 7]


def test_the_tokens_of_each_request_are_padded():
    tokens, rows = np.array([[1, 2], [0, 1], [2, 2]]), np.ones((3, 3, 3))
    found = one_by_one(emitted, tokens, rows[:, :2], rows, iter([0, 2, 1]))
    assert found[0].tolist() == [[7, -1, -1], [0, 1, 7], [2, 7, -1]]
    assert found[1].tolist() == [0, 2, 1]
    assert {part.dtype for part in found} == {np.dtype(np.int64)}


def test_uniforms_are_parted_and_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    tokens, rows, uniforms = torch.zeros((2, 2)).long(), torch.ones((2, 3, 3)), torch.rand((2, 3))
    given = []
    found = one_by_one(lambda *one: given.append(one[3]) or [1], tokens, rows[:, :2], rows, uniforms)
    assert torch.equal(torch.stack(given), uniforms)
    assert torch.equal(found[0], torch.tensor([[1, -1, -1]] * 2))
