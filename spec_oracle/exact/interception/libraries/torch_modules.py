"""Torch modules that neither draw nor read random numbers run as they are: what they compute is ordinary.

Tracing costs far more than computing where models are small. A module is left alone from its second call on
if the first one, which is traced, drew nothing, and if nothing that it can read holds a box: its arguments,
whatever they are made of, its buffers and attributes. Should it draw after all, the global stream moves, and
the run is refused (`enumerate_calls`).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

from spec_oracle.exact.interception.libraries import (
    Arguments,
    Keywords,
    functions_replaced,
    methods_replaced,
    replaced,
)
from spec_oracle.exact.interception.libraries.torch_boxes import (
    INTEGERS,
    boxed_positions,
    settle,
    symbols_at,
    tensors_in,
)
from spec_oracle.exact.interception.libraries.torch_mode import STAND_INS, own_streams, to_dlpack
from spec_oracle.exact.interception.run import active_run, current_run
from spec_oracle.exact.interception.symbols import Pending, Symbol

_call: Final[Callable[..., object]] = torch.nn.Module.__call__
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type, Enum, torch.dtype, torch.device)
_TENSORS: Final = (torch.Tensor, torch.nn.Parameter)
_HOLDERS: Final = frozenset({*_TENSORS, torch.Generator, list, tuple, np.ndarray})

_quiet: Final[MutableMapping[torch.nn.Module, bool]] = WeakIdKeyDictionary()
"""Whether a module drew nothing when it was traced."""


_COMPILED: Final = (
    "compiled code does not show its random numbers (uncompiled, it does: set TORCHDYNAMO_DISABLE=1)"
)


@contextmanager
def _compiled_refused() -> Iterator[None]:
    """Say of compiled code that it cannot be traced: while it compiles, it would compile our modes, too."""
    compiler: Any = sys.modules.get("torch._dynamo.eval_frame")
    chosen = getattr(compiler, "_callback_from_stance", None)  # no public name; missing before torch 2.6
    if chosen is None:
        yield
        return

    def refused(callback: object) -> object:
        if callable(callback) and active_run.get() is not None:
            current_run().cannot_trace("torch.compile", _COMPILED)
        return chosen(callback)

    with replaced(compiler, _callback_from_stance=refused):
        yield


@contextmanager
def untraced_modules() -> Iterator[None]:
    """Leave modules alone that have nothing to do with random numbers; put `STAND_INS` into torch."""
    depth = 0

    def call(module: torch.nn.Module, *arguments: object, **keywords: object) -> object:
        nonlocal depth
        if depth:
            return _call(module, *arguments, **keywords)
        with torch._C.DisableTorchFunction():  # noqa: SLF001  # our own looks are not to be traced
            is_ordinary = (
                _quiet.get(module, False)
                and all(_is_clean_module(part, set()) for part in module.modules())
                and _is_clean(_decided(arguments, keywords), set())
            )
        if not is_ordinary:
            return _traced(module, arguments, keywords)
        depth += 1
        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction():  # noqa: SLF001  # no public name
                return _call(module, *arguments, **keywords)
        finally:
            depth -= 1

    with (
        own_streams(),
        _compiled_refused(),
        functions_replaced(torch, STAND_INS),
        replaced(torch.utils.dlpack, to_dlpack=to_dlpack),
        methods_replaced(torch.nn.Module, {"__call__": call}),
    ):
        yield


def _tokens(*values: object) -> Iterator[tuple[torch.Tensor, list[Symbol]]]:
    """Yield the tensors of integers that hold boxes, with their symbols."""
    for tensor in tensors_in(*values):
        where = boxed_positions(tensor) if tensor.dtype in INTEGERS else None
        if where is not None:
            yield tensor, symbols_at(tensor, where)


def _decided(arguments: Arguments, keywords: Keywords) -> list[object]:
    """Return the arguments; their tokens are decided, which an ordinary module would read anyway."""
    for tensor, symbols in _tokens(arguments, keywords):
        if all(isinstance(symbol, Pending) for symbol in symbols):
            settle(tensor, "a module")
    return [*arguments, *keywords.values()]


def _traced(module: torch.nn.Module, arguments: Arguments, keywords: Keywords) -> object:
    if module in _quiet:
        return _call(module, *arguments, **keywords)
    run = current_run()
    with torch._C.DisableTorchFunction():  # noqa: SLF001
        found = {id(symbol): symbol for _, some in _tokens(arguments, keywords) for symbol in some}
    steps, open_ = run.steps, [s for s in found.values() if isinstance(s, Pending) and not s.is_decided]
    result = _call(module, *arguments, **keywords)
    # To read a token that it is given takes a step, and is no draw; from then on it gets them decided.
    _quiet[module] = run.steps - steps == len(open_) and all(symbol.is_decided for symbol in open_)
    return result


def _is_clean_module(module: torch.nn.Module, seen: set[int]) -> bool:
    own = vars(module)
    held = (value for value in own.values() if type(value) in _HOLDERS)
    return all(_is_clean(value, seen) for value in (*own["_buffers"].values(), *held))


def _is_clean(value: object, seen: set[int]) -> bool:
    """Whether a value holds no box, as far as it can be looked through."""
    if isinstance(value, _PLAIN) or id(value) in seen:
        return True
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return type(value) in _TENSORS and boxed_positions(value) is None
    if isinstance(value, torch.nn.Module):
        return all(_is_clean_module(part, seen) for part in value.modules())
    if type(value) is np.ndarray:
        return bool(value.dtype != object)
    parts = _parts_of(value)
    return callable(value) or (parts is not None and all(_is_clean(part, seen) for part in parts))


def _parts_of(value: object) -> Iterable[object] | None:
    """Return what a value is made of, None where that is not known."""
    if isinstance(value, list | tuple | set):
        return value
    if isinstance(value, dict):
        return value.values()
    return None if isinstance(value, Symbol) or not hasattr(value, "__dict__") else vars(value).values()
