"""What a sampler may return."""

import numpy as np
import pytest

from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError, checked_emissions
from verifiers import Paths


def drafts(batch=2, length=2, vocab=3):
    rows = np.full((batch, 1, length + 1, vocab), 1 / vocab)
    return Paths(np.zeros((batch, 1, length), int), rows[:, :, :-1], rows)


@pytest.mark.parametrize(
    ("tokens", "accepted", "message"),
    [
        ([[0, 1]] * 2, [1, 1], r"tokens: shape \(2, 2\), expected \[B, L\+1\] = \(2, 3\)"),
        ([[0, 1, -1]], [1], "verify decided for 1 request, the batch has 2: decide for all requests at once"),
        ([[0, 1, -1]] * 2, 1, r"num_accepted: shape \(\), expected \[B\] = \(2,\)"),
        ([[0, 1, -1]] * 2, [1], "verify decided for 1 request, the batch has 2"),
        ([1, 1], [[0, 1, -1]] * 2, r"verify returned \(num_accepted, tokens\), in the wrong order"),
        ([[0, 1, -1]] * 2, [1, 3], "num_accepted must be from 0 to 2, without the last token; found 3 at"),
        ([[0, 3, -1]] * 2, [1, 1], r"tokens must be ids from 0 to 2; found 3 at \[0, 1\]"),
        ([[0, -1, -1]] * 2, [1, 1], r"tokens must be ids from 0 to 2; found -1 at \[0, 1\]"),
        ([[0, 1, 2]] * 2, [1, 1], "pad with -1 after the last emitted token; found 2"),
        ([[0, 1, -1], [0, 1]], [1, 1], "tokens: expected an array of integers"),
        ([[0.5, 1, -1]] * 2, [1, 1], "tokens: expected whole numbers"),
        (None, [1, 1], "tokens: expected an array of integers, got None"),
    ],
)
def test_arrays_that_are_no_emissions_are_refused(tokens, accepted, message):
    with pytest.raises(ContractError, match=message):
        checked_emissions((tokens, accepted), drafts())


@pytest.mark.parametrize("returned", [None, 3, ([[0, 1, -1]] * 2,), ([[0]], [0], 0)])
def test_results_that_are_no_pairs_are_refused(returned):
    with pytest.raises(ContractError, match=r"verify returned .*; it must return \(tokens"):
        checked_emissions(returned, drafts())


@pytest.mark.parametrize("error", [SystemExit(0), RuntimeError("no"), GeneratorExit()])
def test_exceptions_of_the_code_are_reported(error):
    def code(*_):
        raise error

    with pytest.raises(SubjectRaisedError, match=type(error).__name__):
        SamplerCode(code)(drafts(), None)
