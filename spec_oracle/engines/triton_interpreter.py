"""Triton kernels on CPU tensors, unmodified, through Triton's own interpreter."""

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from spec_oracle.engines.errors import EngineError

_SWITCH = "TRITON_INTERPRET"

P = ParamSpec("P")
R = TypeVar("R")


def require_interpreter() -> None:
    """Switch the interpreter on before Triton is imported; raises `EngineError` when it is too late."""
    if os.environ.get(_SWITCH) != "1":
        if "triton" in sys.modules:
            raise EngineError(f"triton was imported before its interpreter was chosen; set {_SWITCH}=1")
        os.environ[_SWITCH] = "1"
    try:
        import triton  # noqa: F401
    except ImportError:
        raise EngineError("triton is not installed; pip install triton==3.9.0") from None


def interpreted(launch: Callable[P, R]) -> Callable[P, R]:
    """Return ``launch`` without numpy's warnings about lanes that kernels compute and then mask out."""

    @functools.wraps(launch)
    def quiet(*arguments: P.args, **options: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return launch(*arguments, **options)

    return quiet
