"""Triton kernels on CPU tensors, unmodified, through Triton's own interpreter."""

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
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
    _hasten()


@functools.cache
def _hasten() -> None:
    """Take out of the interpreter what triples its time and changes no result.

    It puts its language in place again in every call of every function of a kernel: here it stays in place.
    And it computes integers twice to see whether they overflow, for an assertion that only debugging has.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
    put, stays = interpreter._patch_lang, SimpleNamespace(restore=lambda: None)  # noqa: SLF001  # no public way
    interpreter._patch_lang = functools.cache(lambda kernel: (put(kernel), stays)[1])  # noqa: SLF001


def interpreted(launch: Callable[P, R]) -> Callable[P, R]:
    """Return ``launch`` without numpy's warnings about lanes that kernels compute and then mask out."""

    @functools.wraps(launch)
    def quiet(*arguments: P.args, **options: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return launch(*arguments, **options)

    return quiet
