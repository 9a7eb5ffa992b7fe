"""Triton kernels on CPU tensors, unmodified, through Triton's own interpreter."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

from spec_oracle.errors import EngineError

_SWITCH = "TRITON_INTERPRET"

if TYPE_CHECKING:
    from triton.language import core
    from triton.runtime import interpreter

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
        raise EngineError("triton is not installed; pip install triton") from None
    _hasten()


@functools.cache
def _hasten() -> None:
    """Take out of the interpreter what makes it several times slower and changes no result.

    It puts its language in place again in every call of every function of a kernel: here it stays in place.
    It computes integers twice to see whether they overflow, for an assertion that only debugging has. It asks
    of every call whether it is told what it has just been told. And it works out again what types come to.
    """
    from triton.language import core, semantic
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
    put, stays = interpreter._patch_lang, SimpleNamespace(restore=lambda: None)  # noqa: SLF001  # no public way
    interpreter._patch_lang = functools.cache(lambda kernel: (put(kernel), stays)[1])  # noqa: SLF001
    interpreter._patch_attr = _put_directly  # noqa: SLF001
    for owner, name in (
        (interpreter, "_get_np_dtype"),
        (semantic.TritonSemantic, "computation_type_impl"),
        (core.block_type, "with_element_ty"),
    ):
        setattr(owner, name, _remembered(getattr(owner, name)))
    begin = core.tensor.__init__

    @_remembered
    def extent(type_: "core.dtype") -> tuple[object, object]:
        blank = object.__new__(core.tensor)
        begin(blank, None, type_)
        return blank.shape, blank.numel

    def begin_quickly(tensor: "core.tensor", handle: object, type: "core.dtype") -> None:  # noqa: A002  # its name there
        tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
        tensor.shape, tensor.numel = extent(type)

    core.tensor.__init__ = begin_quickly


def _remembered(function: Callable[..., R]) -> Callable[..., R]:
    """Return a cached function of Triton's types, which have their names as keys."""
    results: dict[tuple[object, ...], R] = {}

    def remembered(*arguments: object) -> R:
        key = tuple([getattr(argument, "name", argument) for argument in arguments])
        if key not in results:
            results[key] = function(*arguments)
        return results[key]

    return remembered


def _put_directly(
    owner: object,
    name: str,
    member: Callable[..., object],
    _builder: object,
    scope: "interpreter._LangPatchScope",
) -> None:
    """Put a function of Triton's language in place, with the argument that it needs."""
    from triton.runtime import interpreter

    function, meaning = inspect.unwrap(member), interpreter.interpreter_semantic

    def called(*arguments: object, **options: object) -> object:
        options["_semantic"] = meaning
        return function(*arguments, **options)

    scope.set_attr(owner, name, called)


def interpreted(launch: Callable[P, R]) -> Callable[P, R]:
    """Return ``launch`` without numpy's warnings about lanes that kernels compute and then mask out."""

    @functools.wraps(launch)
    def quiet(*arguments: P.args, **options: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return launch(*arguments, **options)

    return quiet
