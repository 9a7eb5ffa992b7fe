"""torch's random operators as enumerated decisions, by operator name."""

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import (
    Pending,
    Scalar,
    categorical,
    distinct,
    exponential,
    uniform,
)
from spec_oracle.exact.interception.torch_boxes import settle, write


def _filled(tensor: Any, make: Callable[[], Scalar]) -> Any:
    """Write fresh calls of ``make`` into every element."""
    everywhere = np.ones(tuple(tensor.shape), dtype=bool)
    write(tensor, everywhere, [make() for _ in range(tensor.numel())])
    return tensor


def _tensor_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: kwargs[key] for key in ("dtype", "layout", "device") if kwargs.get(key) is not None}


def _rand(size: Any, *_: Any, **kwargs: Any) -> Any:
    return _filled(torch.empty(size, **_tensor_options(kwargs)), uniform)


def _rand_like(tensor: Any, **kwargs: Any) -> Any:
    return _filled(torch.empty_like(tensor, **_tensor_options(kwargs)), uniform)


def _uniform_in_place(tensor: Any, low: float = 0.0, high: float = 1.0, **_: Any) -> Any:
    return _filled(tensor, lambda: low + (high - low) * uniform())


def _exponential_in_place(tensor: Any, rate: float = 1.0, **_: Any) -> Any:
    return _filled(tensor, lambda: exponential(rate))


def _bernoulli(tensor: Any, probability: float | None = None, **_: Any) -> Any:
    return _bernoulli_in_place(torch.empty_like(tensor), tensor if probability is None else probability)


def _bernoulli_in_place(tensor: Any, probability: Any = 0.5, **_: Any) -> Any:
    if isinstance(probability, float):
        chances = itertools.repeat(probability, tensor.numel())
    else:
        settle(probability, "bernoulli")
        chances = iter(probability.expand(tensor.shape).flatten().tolist())
    return _filled(tensor, lambda: _coin(next(chances)))


def _coin(chance: float) -> int:
    if not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli: expected a probability in [0, 1], got {chance}")
    return current_run().decide((1 - chance, chance))


def _multinomial(weights: Any, num_samples: int, replacement: bool = False, **_: Any) -> Any:  # noqa: FBT001, FBT002
    settle(weights, "multinomial")
    rows = weights.reshape(-1, weights.shape[-1]).tolist()
    draws = itertools.chain.from_iterable(
        [categorical(row) for _ in range(num_samples)] if replacement else _distinct(row, num_samples)
        for row in rows
    )
    result = torch.empty((*weights.shape[:-1], num_samples), dtype=torch.int64)
    return _filled(result, lambda: next(draws))


def _distinct(row: list[float], count: int) -> list[Pending]:
    categorical(row)  # raises for weights that are no law
    if sum(weight > 0 for weight in row) < count:
        raise RuntimeError("multinomial: not enough positive weights to draw without replacement")
    return distinct(row, count)


def _randint(high: int, size: Any, **kwargs: Any) -> Any:
    return _randint_low(0, high, size, **kwargs)


def _randint_low(low: int, high: int, size: Any, **kwargs: Any) -> Any:
    options = {"dtype": torch.int64} | _tensor_options(kwargs)
    return _shifted(torch.empty(size, **options), low, high)


def _random_from_in_place(tensor: Any, low: int, high: int, **_: Any) -> Any:
    return _shifted(tensor, low, high)


def _shifted(tensor: Any, low: int, high: int) -> Any:
    def draw() -> Pending:
        index = categorical([1.0] * (high - low))
        return Pending(lambda: low + index.settled())

    return _filled(tensor, draw)


def _randperm(count: int, **kwargs: Any) -> Any:
    order = iter(distinct([1.0] * count, count))
    options = {"dtype": torch.int64} | _tensor_options(kwargs)
    return _filled(torch.empty(count, **options), lambda: next(order))


RANDOM: Final[dict[str, Callable[..., Any]]] = {
    "rand.default": _rand,
    "rand.generator": _rand,
    "rand_like.default": _rand_like,
    "rand_like.generator": _rand_like,
    "uniform_.default": _uniform_in_place,
    "exponential_.default": _exponential_in_place,
    "bernoulli.default": _bernoulli,
    "bernoulli.p": _bernoulli,
    "bernoulli_.float": _bernoulli_in_place,
    "bernoulli_.Tensor": _bernoulli_in_place,
    "multinomial.default": _multinomial,
    "randint.default": _randint,
    "randint.generator": _randint,
    "randint.low": _randint_low,
    "randint.low_generator": _randint_low,
    "random_.from": _random_from_in_place,
    "random_.to": lambda tensor, high, **_: _shifted(tensor, 0, high),
    "randperm.default": _randperm,
    "randperm.generator": _randperm,
}
"""Operators with an enumerated version; every other operator that torch tags as random raises."""
