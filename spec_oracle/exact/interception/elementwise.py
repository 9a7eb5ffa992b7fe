"""Functions that take numbers and symbols alike; `algebra` and `comparisons` enter theirs here.

Names are numpy's. Every function takes scalars. Where all of them are numbers, numpy computes.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from spec_oracle.exact.interception.draws import Noise
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Scalar, Symbol

Function = Callable[..., Scalar]
FUNCTIONS: Final[dict[str, Function]] = {}
"""Elementwise functions by numpy's name; each takes and returns scalars."""


def elementwise(numeric: Any, name: str = "") -> Callable[[Function], Function]:
    """Enter a function of symbols among `FUNCTIONS`; where all values are numbers, ``numeric`` computes."""

    def enter(symbolic: Function) -> Function:
        def function(*values: Scalar, **options: Any) -> Scalar:
            if any(isinstance(value, Symbol) for value in values):
                return symbolic(*values, **options)
            with np.errstate(all="ignore"):
                return numeric(*values, **options)

        return FUNCTIONS.setdefault(name or numeric.__name__, function)

    return enter


def is_scalar(value: object) -> bool:
    """Whether ``value`` is a symbol, a number, or a 0-d array of any library."""
    return isinstance(value, Symbol | int | float) or getattr(value, "shape", None) == ()


def stuck(operation: str, reason: str) -> NoReturn:
    """Raise `CannotTraceError`."""
    current_run().cannot_trace(operation, reason)


def resolved(operation: str, *values: Scalar) -> list[Scalar]:
    """Return numbers and noises: pending integers are decided, untraceable values raise."""
    return [
        value
        if isinstance(value, Noise)
        else value.settled(operation)
        if isinstance(value, Symbol)
        else value.item()
        if hasattr(value, "item")
        else value
        for value in values
    ]
