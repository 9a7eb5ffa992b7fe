"""Enumerate foreign code: `enumerate_calls`, and the law of what it returns."""

import dataclasses
import math
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

from spec_oracle.exact.interception.errors import UnrepeatableError
from spec_oracle.exact.interception.numpy_random import enumerated_numpy
from spec_oracle.exact.interception.python_random import enumerated_python
from spec_oracle.exact.interception.run import Branch, current_run, walk
from spec_oracle.exact.interception.symbols import Symbol
from spec_oracle.threads import one_torch_thread

T = TypeVar("T")
Label = TypeVar("Label", bound=Hashable)


def enumerate_calls(function: Callable[[], T], *, max_branches: int = 100_000) -> list[Branch[T]]:
    """Return every outcome of ``function`` with its exact probability (to float64 rounding, below 1e-12).

    ``function`` is called once per branch, with the randomness of torch, ``numpy.random`` and ``random``
    replaced by enumerated decisions; seeds and torch generators are ignored, and a numpy generator to hand to
    foreign code is `EnumeratedGenerator()`. It must make the same steps when it meets the same decisions: no
    state may survive a call, inputs that it changes must be made inside. It returns numbers, strings, arrays,
    tensors, or containers of them; they hold no symbols any more when they come back.

    Generators that foreign code created before the call, or imported by name from ``random`` or
    ``numpy.random``, are out of reach: what moves a global stream is detected, a private one is not.

    Raises `CannotFollowError` where the law would not be exact, `TooManyBranchesError` beyond
    ``max_branches``, `UnrepeatableError` for code that is no function of its decisions, and whatever
    ``function`` raises.
    """
    torch_run = _torch_context()

    def settled_call() -> T:
        with torch_run():
            result = function()
        settled: T = _settled(result)
        return settled

    with _untouched_streams(), one_torch_thread(), enumerated_numpy(), enumerated_python():
        return walk(settled_call, max_branches)


def call_law(
    function: Callable[[], T], label: Callable[[T], Label], *, max_branches: int = 100_000
) -> dict[Label, float]:
    """Return the exact law of ``label(function())``: probability by label; errors as `enumerate_calls`."""
    weights: dict[Label, list[float]] = defaultdict(list)
    for weight, result in enumerate_calls(function, max_branches=max_branches):
        weights[label(result)].append(weight)
    return {outcome: math.fsum(parts) for outcome, parts in weights.items()}


def _torch_context() -> Callable[[], Any]:
    """Return the context for one run; torch is left alone where nobody has imported it."""
    if "torch" not in sys.modules:
        return nullcontext
    from spec_oracle.exact.interception.torch_mode import enumerated_torch

    return enumerated_torch


@contextmanager
def _untouched_streams() -> Iterator[None]:
    """Raise `UnrepeatableError` when a global random stream moved: real randomness entered the result."""
    before = _streams()
    yield
    if before != _streams():
        raise UnrepeatableError("the foreign code drew from a global random stream that was not intercepted")


def _streams() -> list[object]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    assert isinstance(numpy_state, dict)
    states: list[object] = [
        random.getstate(),
        numpy_state["state"]["key"].tobytes(),
        numpy_state["state"]["pos"],
    ]
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return states


def _settled(result: Any) -> Any:  # noqa: PLR0911  (one line per kind of result)
    """Return ``result`` with pending integers decided; raises `CannotFollowError` for noise in it."""
    if result is None or isinstance(result, str | bytes | bool | int | float | np.generic):
        return result
    if isinstance(result, Symbol):
        return result.settled("return value")
    if isinstance(result, np.ndarray):
        return _settled_array(result)
    if isinstance(result, Mapping):
        return {key: _settled(value) for key, value in result.items()}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*map(_settled, result))
    if isinstance(result, tuple | list):
        return type(result)(map(_settled, result))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        fields = [field.name for field in dataclasses.fields(result) if field.init]
        return dataclasses.replace(result, **{name: _settled(getattr(result, name)) for name in fields})
    if "torch" in sys.modules and isinstance(result, sys.modules["torch"].Tensor):
        from spec_oracle.exact.interception.torch_boxes import settle

        settle(result, "return value")
        return result
    return current_run().cannot_follow("return value", f"cannot look for random numbers in a {type(result)}")


def _settled_array(array: Any) -> Any:
    if array.dtype != object:
        return array
    return np.array([_settled(element) for element in array.flat]).reshape(array.shape)
