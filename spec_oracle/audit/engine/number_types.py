"""Number types narrower than float32 in which an engine computes, whatever the type of its rows and weights.

A model in bfloat16 returns rows in float32 as a rule, by a softmax in float32. Under autocast, or where the
inputs of its layers are quantised, its weights may be float32, too. So the engine is searched for arrays in
narrow types, and the operators of torch are watched while it returns a row and a few tokens. Weights in int8
that become float32 again before each product round nothing: int8 counts where other numbers become int8.
"""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, Final

from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.contracts.engine import EngineCode, copy_of
from spec_oracle.exact.completions import Ids

_NARROW: Final = ("float16", "bfloat16", "float8")
_INT8: Final = ("int8", "uint8", "qint8", "quint8")

_HELD: Final = 4096
"""So many objects that an engine holds are looked at, the outermost first."""

_DEPTH: Final = 3
"""So deep do arrays lie in the module of an engine: deeper ones need not be its own."""

_TOKENS: Final = 3


def narrow_type_of(code: EngineCode, context: Ids) -> str:
    """Return how an engine computes in less than float32, in words, or "" where nothing shows that."""
    if held := _narrow_type_held(code.engine):
        return f"weights in {held}"
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    with _operators_watched(torch) as seen, suppress(SubjectRaisedError, ContractError):
        code.returned(context)
        if (copied := copy_of(code.unused)) is not None:
            EngineCode(copied).generated(context, _TOKENS)
    if seen:
        return f"computed in {min(seen)}"
    precision = torch.get_float32_matmul_precision()
    return "" if precision == "highest" else f"matrix products of float32 at precision {precision!r}"


def is_narrow(name: str) -> bool:
    """Whether a number type has fewer digits than float32."""
    return name.startswith(_NARROW)


def type_name(array: object) -> str:
    """Return the name of the number type of an array of any library, "" for other objects."""
    return str(getattr(array, "dtype", "")).rpartition(".")[2]


def _narrow_type_held(engine: object) -> str:
    """Return the narrow number type of arrays that an engine, its class or its module holds, or ""."""
    kind = type(engine)
    around = {**getattr(sys.modules.get(kind.__module__), "__dict__", {}), **vars(kind)}
    arrays = chain(_arrays_held(engine, sys.maxsize), _arrays_held(around, _DEPTH))
    return next(filter(is_narrow, map(type_name, arrays)), "")


def _arrays_held(holder: object, depth: int) -> Iterator[object]:
    """Yield arrays in an object, and in what that holds, to a depth, the outermost first."""
    torch = sys.modules.get("torch")
    module = torch.nn.Module if torch is not None else ()
    waiting, seen = deque([(holder, depth)]), {id(holder)}
    while waiting:
        one, depth = waiting.popleft()
        if isinstance(one, str | bytes | int | float | type | ModuleType | FunctionType):
            continue
        if isinstance(one, module):
            yield from chain(one.parameters(), one.buffers())
        elif _is_array(one):
            yield one
        elif depth:
            parts = [part for part in _parts(one) if id(part) not in seen][: _HELD - len(seen)]
            seen.update(map(id, parts))
            waiting.extend((part, depth - 1) for part in parts)


def _is_array(one: object) -> bool:
    try:
        return isinstance(getattr(one, "shape", None), tuple)
    except Exception:  # noqa: BLE001  # an attribute of foreign code may raise anything
        return False


def _parts(holder: object) -> list[object]:
    if isinstance(holder, list | tuple):
        return list(holder)
    own = [*getattr(holder, "__dict__", {}).values()]
    return [*holder.values(), *own] if isinstance(holder, dict) else own


@contextmanager
def _operators_watched(torch: Any) -> Iterator[set[str]]:
    """Note the narrow number types in which operators of torch compute in this thread."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = set[str]()

    class Watch(TorchDispatchMode):  # type: ignore[misc]  # untyped
        def __torch_dispatch__(
            self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> object:
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            names = {type_name(one) for one in made if isinstance(one, torch.Tensor)}
            seen.update(filter(is_narrow, names))
            takes_floats = any(isinstance(one, torch.Tensor) and one.is_floating_point() for one in args)
            if func.namespace == "quantized" or (takes_floats and not names.isdisjoint(_INT8)):
                seen.add("int8")
            return result

    with Watch():
        yield seen
