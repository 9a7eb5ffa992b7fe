"""What cannot be traced is named, with the line of the foreign code; it never yields a law."""

import math
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.interception import (
    CannotTraceError,
    TooManyBranchesError,
    UnrepeatableError,
    enumerate_calls,
)

torch = pytest.importorskip("torch")

WEIGHTS = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


def numpy_sort():
    return np.sort(np.random.default_rng().random(3))


def numpy_sum():
    return np.random.default_rng().random(3).sum() < 1


def numpy_float():
    """The name ``float`` has another meaning while it is traced, which this would see."""
    number = float(np.random.default_rng().random())
    return number < 0.5 and type(number) is float


def numpy_int():
    """So has the name ``int``."""
    number = int(np.random.default_rng().integers(2**62))
    return number < 2**61 and type(number) is int


KEPT = np.ones(3)


def numpy_into_ordinary_array():
    KEPT[0] = np.random.default_rng().random()


def numpy_in_place():
    weights = KEPT
    weights /= np.random.default_rng().exponential(size=3)
    return weights.argmax()


def numpy_normal():
    return np.random.default_rng().normal() < 0


def numpy_product_of_exponentials():
    e = np.random.default_rng().exponential(size=2)
    return e[0] * e[1] < 1


def python_gauss():
    return random.gauss(0, 1) < 0


def torch_item_as_float():
    return math.sin(torch.rand(1).item()) < 0.5


def torch_softmax():
    return torch.rand(2).softmax(0)[0] < 0.5


def torch_bits():
    return torch.rand(2).view(torch.int32) < 0


def torch_randn():
    return torch.randn(2) < 0


def torch_accumulate():
    sums = torch.zeros(2, dtype=torch.float64)
    sums.index_put_((torch.tensor([0, 0]),), torch.rand(2, dtype=torch.float64), accumulate=True)
    return sums < 1


def shared_noise_used_twice():
    noise = torch.empty(3, dtype=torch.float64).exponential_()
    return (WEIGHTS / noise).argmax(), (WEIGHTS.flip(0) / noise).argmax()


def numpy_shared_noise_used_twice():
    winners = (np.array([[0.2, 0.8], [0.7, 0.3]]) / np.random.default_rng(0).exponential(size=2)).argmax(
        axis=1
    )
    return winners[0], winners[1]


def winning_score():
    noise = torch.empty(3, dtype=torch.float64).exponential_()
    return (WEIGHTS / noise).max(dim=0).values < 1


def noise_compared_then_raced():
    noise = torch.empty(3, dtype=torch.float64).exponential_()
    late = bool(noise[0] > 1)
    return late, (WEIGHTS / noise).argmax()


def returned_noise():
    return torch.rand(1)


def unknown_container():
    return {torch.rand(1) < 0.5}


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (numpy_sort, "comparison"),
        (numpy_sum, "addition"),
        (numpy_float, "float"),
        (numpy_int, "int"),
        (numpy_into_ordinary_array, "float"),
        (numpy_in_place, "divide"),
        (numpy_normal, "normal"),
        (numpy_product_of_exponentials, "multiplication"),
        (python_gauss, "gauss"),
        (torch_item_as_float, "float"),
        (torch_softmax, "softmax"),
        (torch_bits, "view"),
        (torch_randn, "randn"),
        (torch_accumulate, "index_put"),
        (shared_noise_used_twice, "race"),
        (numpy_shared_noise_used_twice, "race"),
        (winning_score, "comparison"),
        (noise_compared_then_raced, "race"),
        (returned_noise, "return value"),
        (unknown_container, "return value"),
    ],
)
def test_error_names_operation_and_line(function, operation):
    with pytest.raises(CannotTraceError) as caught:
        enumerate_calls(function)
    assert operation in caught.value.operation
    assert isinstance(caught.value, SpecOracleError)
    if function not in (
        shared_noise_used_twice,
        noise_compared_then_raced,
        returned_noise,
        unknown_container,
    ):
        assert str(Path(__file__).relative_to(Path.cwd())) in caught.value.location
        assert not Path(caught.value.location).is_absolute()


def test_swallowed_errors_still_count():
    def evasive():
        try:
            return float(np.random.default_rng().random())
        except SpecOracleError:
            return 0.5

    with pytest.raises(CannotTraceError):
        enumerate_calls(evasive)


def test_state_between_calls_is_noticed():
    calls = []

    def stateful():
        calls.append(1)
        return np.random.default_rng().random() < 0.5 / len(calls)

    with pytest.raises(UnrepeatableError):
        enumerate_calls(stateful)


def test_noise_kept_between_calls_is_noticed():
    kept = []

    def hoarding():
        kept.append(torch.rand(2))
        return kept[0] < 0.5

    with pytest.raises(UnrepeatableError):
        enumerate_calls(hoarding)


def test_randomness_imported_by_name_is_noticed():
    original = random.random

    with pytest.raises(UnrepeatableError, match="global random stream"):
        enumerate_calls(lambda: original() < 0.5)


def test_branches_are_limited():
    with pytest.raises(TooManyBranchesError):
        enumerate_calls(lambda: torch.rand(5) < 0.5, max_branches=31)


def test_numbers_that_outlive_their_run_can_be_pickled():
    kept = []
    enumerate_calls(lambda: kept.append(random.random()))
    assert 0 <= pickle.loads(pickle.dumps(kept[0])) < 1


def test_streams_and_functions_are_restored():
    before = (random.random, np.random.default_rng, torch.get_rng_state().tolist())
    enumerate_calls(lambda: (random.random() < 0.5, np.random.rand() < 0.5, torch.rand(1) < 0.5))  # noqa: NPY002
    after = (random.random, np.random.default_rng, torch.get_rng_state().tolist())
    assert before == after


def drawn_in_a_vmap():
    return torch.vmap(lambda weight: torch.rand(()) < weight, randomness="different")(WEIGHTS)


@pytest.mark.parametrize(
    ("made", "operation", "says"),
    [
        (
            lambda: torch.compile(lambda: torch.rand(2) < 0.5, backend="eager"),
            "torch.compile",
            "TORCHDYNAMO_DISABLE=1",
        ),
        (lambda: drawn_in_a_vmap, "torch.vmap", "tensors inside it"),
    ],
)
def test_compiled_and_mapped_code_is_named_as_what_cannot_be_traced(made, operation, says):
    function = made()
    with pytest.raises(CannotTraceError, match=says) as caught:
        enumerate_calls(function)
    assert caught.value.operation == operation
