"""Whether an engine computes in less than float32, whatever the type of its rows and weights.

A model in bfloat16 returns rows in float32 as a rule, by a softmax in float32. Under autocast, or where the
inputs of its layers are quantised, its weights may be float32, too. So the engine is searched for arrays in
narrow types, and the operators of torch are watched while it returns a row and a few tokens.
"""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from types import FunctionType, ModuleType
from typing import Final

from spec_oracle.audit.number_types import is_narrow, operators_watched, type_name
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.contracts.engine import EngineCode, copy_of
from spec_oracle.exact.completions import Ids

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
    with operators_watched() as seen, suppress(SubjectRaisedError, ContractError):
        code.returned(context)
        if (copied := copy_of(code.unused)) is not None:
            EngineCode(copied).generated(context, _TOKENS)
    if seen:
        return f"computed in {min(seen)}"
    precision = torch.get_float32_matmul_precision()
    return "" if precision == "highest" else f"matrix products of float32 at precision {precision!r}"


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
